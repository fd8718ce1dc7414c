export {
  checkSetting,
  checkSettingName,
  isSettingName,
  parseSettingText,
  type RuntimeSettings,
  type SettingDefinition,
  type SettingName,
  type SettingValue,
  settingDefinitions,
  settingNames,
  toRuntimeSettings,
} from './definitions.ts'
export {
  clearSetting,
  type ListedSetting,
  listSettings,
  purgeSettings,
  readSettings,
  type SettingClearing,
  type SettingsRead,
  type SettingWriting,
  type SettingWritten,
  type StoredSetting,
  type WritingParts,
  writeSetting,
} from './store.ts'
export {
  type SettingsListener,
  SettingsWatch,
  type SettingsWatchOptions,
  settingsChannel,
  tellSettings,
} from './watch.ts'
