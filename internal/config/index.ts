export {
  type Config,
  configTable,
  didYouMean,
  type Environment,
  printableConfig,
  readConfig,
} from './read.ts'
export { type ProcessName, runnable } from './settings.ts'
export { isCredential } from './value-kinds.ts'
