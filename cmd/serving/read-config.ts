import { type Config, type ProcessName, readConfig } from '#internal/config/index.ts'

/** Reads the settings of a process from its environment; without good ones says what is wrong and exits with code 2. */
export function readConfigOrExit<Process extends ProcessName>(name: Process): Config<Process> {
  const read = readConfig(process.env, { process: name })
  return read.kind === 'ok' ? read.config : exitForSettings(read.problems)
}

/** Ends a process that cannot start with the settings that it was given, with code 2 and one line for each problem. */
export function exitForSettings(problems: readonly string[]): never {
  for (const problem of problems) process.stderr.write(`${problem}\n`)
  process.exit(2)
}
