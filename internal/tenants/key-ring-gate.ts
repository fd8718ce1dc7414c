import type { Pool } from '#internal/storage/index.ts'
import type { CheckResult } from '#internal/telemetry/index.ts'
import type { KeyRing } from './key-ring.ts'
import { listSealedSecrets, type SecretCursor } from './tenant-store.ts'

/**
 * Reason that the gate opened. `opens`: the ring decrypted a secret. `nothingSealed`: no encrypted secret exists. `replacesLost`: the ring
 * decrypted no secret, but is configured to replace a lost ring.
 */
export type GateOpening = 'opens' | 'nothingSealed' | 'replacesLost'

/** Result of trying all stored secrets when the key ring decrypted none of them. Key ids are not secret. */
export interface UnfitRing {
  readonly secrets: number
  /** Ids of the keys that encrypted the secrets; at most 16. */
  readonly sealedWith: readonly string[]
}

export interface KeyRingGateOptions {
  readonly pool: Pool
  readonly keyRing: KeyRing
  /** Opens the gate even if the ring decrypts no secret. Default false. */
  readonly replacesLost?: boolean
  /** Called once. Must not throw. */
  onOpened(opening: GateOpening): void
  /** Called the first time that all stored secrets were tried and the key ring decrypted none of them. Must not throw. */
  onUnfit(unfit: UnfitRing): void
}

const pageRows = 100
/** Maximum number of pages per call; 20 pages of 100 secrets need about 20 ms of CPU time. */
const pagesMax = 20
const keyIdsMax = 16

/**
 * Readiness gate at the start of a process. The process becomes ready after the key ring has decrypted one secret from Postgres, so that a
 * rollout with a wrong ring stops at its first pod. The gate opens immediately if no secret is stored. It never closes again, because
 * closing would take all pods out of service at the same time.
 */
export class KeyRingGate {
  readonly #options: KeyRingGateOptions
  readonly #opened = Promise.withResolvers<void>()
  #isOpen = false
  #unfit: UnfitRing | undefined
  #after: SecretCursor | undefined
  #secrets = 0
  #keyIds = new Set<string>()

  constructor(options: KeyRingGateOptions) {
    this.#options = options
  }

  /** Never becomes false again. */
  get isOpen(): boolean {
    return this.#isOpen
  }

  get opened(): Promise<void> {
    return this.#opened.promise
  }

  /** Undefined before all secrets were tried once, and after the gate has opened. */
  get unfit(): UnfitRing | undefined {
    return this.#isOpen ? undefined : this.#unfit
  }

  check(): CheckResult {
    if (this.#isOpen) return { ok: true }
    const reason = this.#unfit
      ? `the key ring decrypts none of ${this.#unfit.secrets} stored secrets: see LATCHKEY_KEY_RING`
      : 'the key ring has not decrypted a stored secret yet'
    return { ok: false, reason }
  }

  /**
   * Tries to decrypt at most 2 000 secrets. The next call continues where this call stopped, and starts over after the last secret. Does
   * nothing after the gate has opened. Idempotent.
   * @throws errors of Postgres
   */
  async runOnce(signal: AbortSignal): Promise<void> {
    for (let page = 0; page < pagesMax && !this.#isOpen && !signal.aborted; page += 1) {
      const rows = await listSealedSecrets(this.#options.pool, this.#after, pageRows)
      const { keyRing } = this.#options
      if (rows.some((row) => keyRing.open(row, row).kind === 'opened')) return this.#open('opens')
      this.#secrets += rows.length
      for (const { keyId } of rows) if (this.#keyIds.size < keyIdsMax) this.#keyIds.add(keyId)
      this.#after = rows.at(-1)
      if (rows.length < pageRows) return this.#endSearch()
    }
  }

  #endSearch(): void {
    const found: UnfitRing = { secrets: this.#secrets, sealedWith: [...this.#keyIds] }
    this.#after = undefined
    this.#secrets = 0
    this.#keyIds = new Set()
    if (found.secrets === 0) return this.#open('nothingSealed')
    if (this.#options.replacesLost) return this.#open('replacesLost')
    const isFirst = this.#unfit === undefined
    this.#unfit = found
    if (isFirst) this.#options.onUnfit(found)
  }

  #open(opening: GateOpening): void {
    this.#isOpen = true
    this.#options.onOpened(opening)
    this.#opened.resolve()
  }
}
