// The flags of `serve`, made of the broker's own table of settings; each is also a variable and a key of the config file.
import { Option, type Command } from 'commander';
import { SETTINGS, type Setting } from '../server/config.ts';

export const CONFIG_VARIABLE = 'RIVULET_CONFIG';

const PLACEHOLDERS: Readonly<Record<Setting['kind'], string>> = {
  path: '<PATH>',
  address: '<HOST:PORT>',
  peers: '<ID@HOST:PORT,…>',
  bytes: '<BYTES>',
  milliseconds: '<MS>',
  count: '<N>',
  switch: '[true|false]',
  choice: '<CHOICE>',
  text: '<TEXT>',
};

export function variableOf(setting: Setting): string {
  return `RIVULET_${setting.name.toUpperCase().replaceAll('-', '_')}`;
}

export function addServeOptions(made: Command): void {
  made.addOption(
    new Option(
      '--config <FILE>',
      `JSON file of settings by flag name; flags and variables win (also ${CONFIG_VARIABLE})`,
    ),
  );
  made.addOption(new Option('--json', 'one JSON line when the broker is ready'));
  for (const setting of SETTINGS) made.addOption(optionOf(setting));
  made.addHelpText(
    'after',
    '\nEvery flag is also a variable (RIVULET_DATA_DIR for --data-dir) and a key of the config file ({"data-dir": "/var/lib/rivulet"}).\nSizes take KiB, MiB, GiB; times take ms, s, m, h, d.',
  );
}

function optionOf(setting: Setting): Option {
  const { choices, defaultText } = setting;
  const about = `${setting.sentence}${choices === undefined ? '' : ` One of ${choices.join(', ')}.`}${defaultText === undefined ? '' : ` [${defaultText}]`}`;
  const option = new Option(`--${setting.name} ${PLACEHOLDERS[setting.kind]}`, about);
  if (setting.kind === 'switch') option.preset('true');
  return setting.hidden === true ? option.hideHelp() : option;
}
