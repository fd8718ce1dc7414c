export {
  type Config,
  configTable,
  didYouMean,
  type Environment,
  type PrintableConfig,
  printableConfig,
  type ReadConfig,
  readConfig,
} from './read.ts'
export { type ProcessName, processNames } from './settings.ts'
