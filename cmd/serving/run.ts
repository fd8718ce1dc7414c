import { type Config, type ProcessName, printableConfig, readConfig } from '#internal/config/index.ts'
import { runProcess, type Scope } from '#internal/process/index.ts'
import { type KeyRing, parseKeyRing } from '#internal/tenants/index.ts'
import { version } from '../../package.json'
import { createProcessTelemetry, openTraces, type ProcessTelemetry } from './telemetry.ts'

/** Settings that all long-running processes share. */
export type ServingConfig = Pick<
  Config<'api' | 'forwarder' | 'operator' | 'backoffice'>,
  | 'keyRing'
  | 'logLevel'
  | 'shutdownGraceSeconds'
  | 'otlpEndpoint'
  | 'otlpHeaders'
  | 'otelServiceName'
  | 'otelSamplerRatio'
>

/** Dependencies that `runServing` passes to a process. */
export interface ServingParts {
  readonly keyRing: KeyRing
  readonly version: string
  readonly telemetry: ProcessTelemetry
  readonly scope: Scope
}

/** Actual listening ports, also if the configured ones are 0. */
export interface ServingPorts {
  /** Public port, if the process has one. */
  readonly port?: number
  readonly opsPort: number
}

/**
 * Runs a long-running process: parses the key ring, creates telemetry, then `start` opens the rest through the scope. Never returns;
 * exits with code 2 for an invalid key ring, otherwise with the code of `runProcess`.
 */
export async function runServing(
  name: ProcessName,
  config: ServingConfig,
  start: (parts: ServingParts) => Promise<ServingPorts>,
): Promise<never> {
  const ring = parseKeyRing(config.keyRing)
  const keyRing =
    ring.kind === 'invalid' ? exitForSettings([`LATCHKEY_KEY_RING: ${ring.message}`]) : ring.keyRing
  const telemetry = await createProcessTelemetry({ ...config, service: `latchkey-${name}`, version })
  const { log } = telemetry
  log.info({ config: printableConfig(config) }, 'starting')
  return runProcess({
    name,
    log,
    graceMs: config.shutdownGraceSeconds * 1000,
    start: async (scope) => {
      await openTraces(telemetry, scope)
      const { port, opsPort } = await start({ keyRing, version, telemetry, scope })
      log.info({ port, opsPort }, 'listening')
    },
  })
}

/** Reads the settings of a process from its environment. Prints the problems and exits with code 2 if they are invalid. */
export function readConfigOrExit<Process extends ProcessName>(name: Process): Config<Process> {
  const read = readConfig(process.env, { process: name })
  return read.kind === 'ok' ? read.config : exitForSettings(read.problems)
}

/** Prints one line per problem to stderr and exits with code 2. */
export function exitForSettings(problems: readonly string[]): never {
  for (const problem of problems) process.stderr.write(`${problem}\n`)
  process.exit(2)
}
