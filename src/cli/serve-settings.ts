// Settings of `serve` from flags, RIVULET_… variables and the config file, in this order of precedence.
import { readFileSync } from 'node:fs';
import { ConfigError, parseConfig, SETTINGS, settingOf, type BrokerConfig } from '../server/config.ts';
import { UsageError } from './failure.ts';
import { CONFIG_VARIABLE, variableOf } from './serve-options.ts';

export type Variables = Readonly<Record<string, string | undefined>>;

/** Flags by their camel-case name, as the command line parser gives them. Throws UsageError that names the bad one and where it came from. */
export function serveSettings(flags: Readonly<Record<string, unknown>>, variables: Variables): BrokerConfig {
  const file = typeof flags['config'] === 'string' ? flags['config'] : variables[CONFIG_VARIABLE];
  const texts = file === undefined || file === '' ? {} : fromFile(file);
  const origin: Record<string, string> = Object.fromEntries(
    Object.keys(texts).map((name) => [name, `in ${String(file)}`]),
  );
  for (const setting of SETTINGS) {
    const variable = variables[variableOf(setting)];
    if (variable !== undefined && variable !== '') {
      texts[setting.name] = variable;
      origin[setting.name] = `in the variable ${variableOf(setting)}`;
    }
    const flag = flags[setting.key];
    if (typeof flag === 'string' || typeof flag === 'boolean') {
      texts[setting.name] = String(flag);
      origin[setting.name] = '';
    }
  }
  try {
    return parseConfig(texts);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    const where = origin[error.setting] ?? '';
    throw new UsageError(where === '' ? error.message : `${error.message} (${where})`);
  }
}

function fromFile(path: string): Record<string, string> {
  let parsed: unknown;
  try {
    parsed = JSON.parse(readFileSync(path, 'utf8'));
  } catch (error) {
    throw new UsageError(`--config ${path} cannot be read: ${error instanceof Error ? error.message : String(error)}`);
  }
  if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed))
    throw new UsageError(`--config ${path} must hold one JSON object`);
  const texts: Record<string, string> = {};
  for (const [name, value] of Object.entries(parsed)) {
    if (settingOf(name) === undefined) throw new UsageError(`--config ${path}: there is no setting "${name}"`);
    if (typeof value !== 'string' && typeof value !== 'number' && typeof value !== 'boolean') {
      throw new UsageError(`--config ${path}: "${name}" must be text, a number, true or false`);
    }
    texts[name] = String(value);
  }
  return texts;
}
