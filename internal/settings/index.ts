export {
  checkSettingName,
  type KnownProviderNames,
  parseSettingText,
  pausedProviderOf,
  type SettingName,
  type SettingValue,
  settingNameSchema,
  settingNames,
} from './definitions.ts'
export {
  clearSetting,
  type ListedSetting,
  listSettings,
  listTenantSettings,
  purgeSettings,
  readSetting,
  readSettings,
  type SettingWritten,
  type StoredSetting,
  type TenantSetting,
  writeSetting,
} from './store.ts'
export { SettingsWatch, settingsChannel, tellSettings } from './watch.ts'
