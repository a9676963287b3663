// Public entry point `rivulet/server`: a broker inside another program, or behind the command line.
export { abortProcess, type AbortReason } from './abort.ts';
export { startBroker, type Broker, type StartOptions } from './real-broker.ts';
export {
  ConfigError,
  configOf,
  parseConfig,
  parseSetting,
  SETTINGS,
  settingOf,
  type BrokerConfig,
  type PeerNode,
  type Setting,
  type SettingKind,
} from './config.ts';
export { FATAL, FatalError, type FatalReason } from '../base/fatal.ts';
