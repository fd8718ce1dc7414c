import type { Pool } from '#internal/storage/index.ts'
import type { CheckResult } from '#internal/telemetry/index.ts'
import type { KeyRing } from './key-ring.ts'
import { listSealedSecrets, type SecretCursor } from './store.ts'

/** Reason that the gate opened. `opens`: a secret opened. `nothingSealed`: there is none. `replacesLost`: none opened, and the ring replaces a lost one. */
export type GateOpening = 'opens' | 'nothingSealed' | 'replacesLost'

/** Result of a complete search in which no secret opened. Key ids are not secret. */
export interface UnfitRing {
  readonly secrets: number
  /** At most 16 key ids. */
  readonly sealedWith: readonly string[]
}

/** Options of a gate. */
export interface KeyRingGateOptions {
  readonly pool: Pool
  readonly keyRing: KeyRing
  /** Opens the gate even if no secret opens. Default false. */
  readonly replacesLost?: boolean
  /** Called once, when the gate opens. Must not throw. */
  onOpened(opening: GateOpening): void
  /** Called after the first complete search in which no secret opened. Must not throw. */
  onUnfit(unfit: UnfitRing): void
}

const pageRows = 100
/** Bounds one search step to 2 000 secrets, about 20 ms of CPU. */
const pagesMax = 20
const keyIdsMax = 16

/**
 * Readiness gate at the start: not ready until the key ring has opened one of the secrets in Postgres, so that a rollout with a wrong
 * ring stops at its first pod. It never closes again, which would take all pods out of service at once. Opens at once if no secret is
 * sealed.
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

  /** Never returns to false. */
  get isOpen(): boolean {
    return this.#isOpen
  }

  /** Resolves when the gate opens. */
  get opened(): Promise<void> {
    return this.#opened.promise
  }

  /** Result of the last complete search while the gate is closed. */
  get unfit(): UnfitRing | undefined {
    return this.#isOpen ? undefined : this.#unfit
  }

  /** Readiness check. */
  check(): CheckResult {
    if (this.#isOpen) return { ok: true }
    const reason = this.#unfit
      ? `the key ring opens none of ${this.#unfit.secrets} sealed secrets: see LATCHKEY_KEY_RING`
      : 'no sealed secret has been opened with the key ring yet'
    return { ok: false, reason }
  }

  /**
   * Tries at most 2 000 secrets; a later call continues from there and wraps around. Does nothing once the gate is open. Idempotent.
   * @throws when Postgres fails
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
