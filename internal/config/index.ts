export { type PrintableConfig, printableConfig } from './print.ts'
export { type Config, type Environment, type ReadConfig, readConfig } from './read.ts'
export { type ProcessName, processNames } from './settings.ts'
export { configTable } from './table.ts'
