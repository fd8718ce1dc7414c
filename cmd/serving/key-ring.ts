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
import type { Host } from './telemetry.ts'

export interface KeyRingParts {
  /** Decrypts tenant secrets and reports secrets that cannot be decrypted. */
  readonly secrets: SecretOpener
  /** Gate that opens after the key ring has decrypted a stored secret. The process is not ready until the gate opens. */
  readonly keyRingGate: KeyRingGate
}

export interface KeyRingOptions {
  readonly pool: Pool
  readonly keyRing: KeyRing
  /** See `KeyRingGateOptions`. */
  readonly replacesLost?: boolean | undefined
}

const lookMs = 1_000
const turnMsMax = 10_000

/** Opens the key ring gate and the secret decrypter until the scope closes, and declares their metrics. Call once per process. */
export async function openKeyRing(
  host: Host,
  { directory, ...options }: KeyRingOptions & { readonly directory: Directory },
): Promise<KeyRingParts> {
  const { log, metrics } = host
  const secrets = new SecretOpener({
    keyRing: options.keyRing,
    directory,
    onUnreadable: ({ tenant, field, keyIds }) => {
      const { id, namespace, name } = tenant
      log.error(
        { tenant: id, resource: `${namespace}/${name}`, field, sealedWith: keyIds },
        'key ring cannot decrypt tenant secret',
      )
    },
  })
  unlabelled(metrics).gauge(
    'latchkey_tenants_unreadable_count',
    'Tenants with secrets that this process cannot decrypt with its key ring.',
    () => secrets.countUnreadableTenants(),
  )
  return { secrets, keyRingGate: await openKeyRingGate(host, options) }
}

/** Opens only the key ring gate, for a process without a tenant directory. Call once per process. */
export async function openKeyRingGate(
  host: Host,
  { pool, keyRing, replacesLost = false }: KeyRingOptions,
): Promise<KeyRingGate> {
  const { log, metrics, health } = host
  const gate = new KeyRingGate({
    pool,
    keyRing,
    replacesLost,
    onOpened: (opening) => reportOpening(log, opening),
    onUnfit: ({ secrets, sealedWith }) =>
      log.error(
        { sealed: secrets, sealedWith, ringHas: keyRing.keyIds },
        'key ring decrypts none of the stored secrets; process stays unready',
      ),
  })
  health.addCheck('key ring', () => gate.check())
  unlabelled(metrics).gauge(
    'latchkey_tenants_key_ring_unfit_count',
    '1 while the key ring decrypts none of the stored secrets, so that the process is not ready; otherwise 0.',
    () => (gate.unfit ? 1 : 0),
  )
  const loop = await openLoop(host, {
    name: 'key ring',
    intervalMs: lookMs,
    turnMsMax,
    backoff: { firstMs: 100, maxMs: lookMs },
    runOnce: (signal) => gate.runOnce(signal),
    onError: (cause, failures) =>
      log.warn({ failures, cause }, 'key ring check could not read the stored secrets; retrying'),
  })
  void gate.opened.then(() => loop.stop())
  return gate
}

function reportOpening(log: Host['log'], opening: GateOpening): void {
  if (opening === 'replacesLost')
    log.warn({}, 'key ring replaces a lost key ring; all tenant secrets will be re-encrypted')
  else log.info({ because: opening }, 'key ring verified')
}
