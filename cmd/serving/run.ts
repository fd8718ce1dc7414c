import { type Config, type ProcessName, printableConfig, readConfig } from '#internal/config/index.ts'
import { runProcess } from '#internal/process/index.ts'
import { type KeyRing, parseKeyRing } from '#internal/tenants/index.ts'
import { version } from '../../package.json'
import { createProcessTelemetry, type Host, openTraces } from './telemetry.ts'

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

type RunningConfig<C> = Omit<C, 'keyRing'> & { readonly keyRing: KeyRing; readonly version: string }

/** Actual listening ports, also when the configured ports are 0. */
export interface ServingPorts {
  /** Public port, or the port of a backoffice, if the process has one. */
  readonly port?: number | undefined
  /** Port of the backoffice of a process that also has a public port. */
  readonly backofficePort?: number | undefined
  readonly opsPort: number
}

/**
 * Runs a long-running process. Parses the key ring, creates telemetry, and then calls `start`, which opens everything else through the
 * scope. Never returns. Exits with code 2 for an invalid key ring, otherwise with the exit code of `runProcess`.
 */
export async function runServing<C extends ServingConfig>(
  name: ProcessName,
  config: C,
  start: (host: Host, config: RunningConfig<C>) => Promise<ServingPorts>,
): Promise<never> {
  const { keyRing: keyRingText, ...others } = config
  const ring = parseKeyRing(keyRingText)
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
      const host = { ...telemetry, scope }
      await openTraces(host)
      log.info({ ...(await start(host, { ...others, keyRing, version })) }, 'listening')
    },
  })
}

/** Reads the settings of a process from its environment. If they are invalid, prints the problems and exits with code 2. */
export function readConfigOrExit<Process extends ProcessName>(name: Process): Config<Process> {
  const read = readConfig(process.env, { process: name })
  return read.kind === 'ok' ? read.config : exitForSettings(read.problems)
}

/** Prints each problem on its own line to stderr and exits with code 2. */
export function exitForSettings(problems: readonly string[]): never {
  for (const problem of problems) process.stderr.write(`${problem}\n`)
  process.exit(2)
}
