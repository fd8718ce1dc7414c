export {
  type Config,
  configTable,
  didYouMean,
  type Environment,
  printableConfig,
  readConfig,
} from './read.ts'
export type { ProcessName } from './settings.ts'
export { isCredential } from './value-kinds.ts'
