import type { Scope } from '#internal/process/index.ts'
import type { Pool } from '#internal/storage/index.ts'
import { unlabelled } from '#internal/telemetry/index.ts'
import {
  type Directory,
  type GateOpening,
  type KeyRing,
  KeyRingGate,
  SecretOpener,
} from '#internal/tenants/index.ts'
import { openLoop } from './loop.ts'
import type { ProcessTelemetry } from './telemetry.ts'

/** A process' key ring at work. */
export interface KeyRingParts {
  /** Opens tenants' secrets, and reports those that cannot be opened. */
  readonly secrets: SecretOpener
  /** Open once the ring was proven; the process is not ready before. */
  readonly keyRingGate: KeyRingGate
}

/** Key ring and the database whose sealed secrets prove it. */
export interface KeyRingOptions {
  readonly pool: Pool
  readonly keyRing: KeyRing
  /** See `KeyRingGateOptions`. */
  readonly replacesLost?: boolean
}

const lookMs = 1_000
const turnMsMax = 10_000

/** Opens the gate and the opener of secrets for the scope's life, with their metrics. To be called once in a process. */
export async function openKeyRing(
  { directory, ...options }: KeyRingOptions & { readonly directory: Directory },
  telemetry: ProcessTelemetry,
  scope: Scope,
): Promise<KeyRingParts> {
  const { log, metrics } = telemetry
  const secrets = new SecretOpener({
    ...{ keyRing: options.keyRing, directory },
    onUnreadable: ({ tenant, field, keyIds }) => {
      const { id, namespace, name } = tenant
      log.error(
        { tenant: id, resource: `${namespace}/${name}`, field, sealedWith: keyIds },
        'secrets of a tenant cannot be opened with the key ring',
      )
    },
  })
  unlabelled(metrics).gauge(
    'latchkey_tenants_unreadable_count',
    'Tenants with secrets that this process tried to open with its key ring and could not, as long as they do not change.',
    () => secrets.countUnreadableTenants(),
  )
  return { secrets, keyRingGate: await openKeyRingGate(options, telemetry, scope) }
}

/** Opens the gate alone, for a process without a directory. To be called once in a process. */
export async function openKeyRingGate(
  { pool, keyRing, replacesLost = false }: KeyRingOptions,
  telemetry: ProcessTelemetry,
  scope: Scope,
): Promise<KeyRingGate> {
  const { log, metrics, health } = telemetry
  const gate = new KeyRingGate({
    ...{ pool, keyRing, replacesLost },
    onOpened: (opening) => reportOpening(log, opening),
    onUnfit: ({ secrets, sealedWith }) =>
      log.error(
        { sealed: secrets, sealedWith, ringHas: keyRing.keyIds },
        'the key ring opens none of the sealed secrets: this process does not become ready',
      ),
  })
  health.addCheck('key ring', () => gate.check())
  unlabelled(metrics).gauge(
    'latchkey_tenants_key_ring_unfit_count',
    '1 while none of the sealed secrets can be opened with this process’ key ring, so that it is not ready; else 0.',
    () => (gate.unfit ? 1 : 0),
  )
  const loop = await openLoop(
    {
      ...{ name: 'key ring', intervalMs: lookMs, turnMsMax, backoff: { firstMs: 100, maxMs: lookMs } },
      runOnce: (signal) => gate.runOnce(signal),
      onError: (cause, failures) =>
        log.warn({ failures, cause }, 'sealed secrets could not be read to prove the key ring, trying again'),
    },
    telemetry,
    scope,
  )
  void gate.opened.then(() => loop.stop())
  return gate
}

function reportOpening(log: ProcessTelemetry['log'], opening: GateOpening): void {
  if (opening === 'replacesLost')
    log.warn({}, 'the key ring opens no sealed secret and replaces a lost one: all secrets are sealed anew')
  else log.info({ because: opening }, 'the key ring is proven')
}
