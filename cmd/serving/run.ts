import { type Config, type ProcessName, printableConfig } from '#internal/config/index.ts'
import { runProcess, type Scope } from '#internal/process/index.ts'
import { type KeyRing, parseKeyRing } from '#internal/tenants/index.ts'
import { version } from '../../package.json'
import { exitForSettings } from './read-config.ts'
import { createProcessTelemetry, openTraces, type ProcessTelemetry } from './telemetry.ts'

/** The settings that every serving process has. */
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

/** What a serving process is started with, beside its settings. */
export interface ServingParts {
  readonly keyRing: KeyRing
  readonly version: string
  readonly telemetry: ProcessTelemetry
  readonly scope: Scope
}

/** The ports that a process listens on, also where the configured ones were 0. */
export interface ServingPorts {
  /** The public one, of a process that has one. */
  readonly port?: number
  readonly opsPort: number
}

/**
 * Runs a process that serves: key ring, telemetry, then `start` opens its parts through the scope. Never returns: the process
 * exits, with code 2 for a bad key ring and otherwise as `runProcess` has it.
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
