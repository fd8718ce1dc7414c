import type { Pool } from '#internal/storage/index.ts'
import type { CheckResult } from '#internal/telemetry/index.ts'
import type { KeyRing } from './key-ring.ts'
import { listSealedSecrets, type SecretCursor } from './store.ts'

/**
 * Why the gate opened. `opens`: a sealed secret could be opened. `nothingSealed`: there is none. `replacesLost`: none could be opened,
 * and the ring replaces one that is lost.
 */
export type GateOpening = 'opens' | 'nothingSealed' | 'replacesLost'

/** A complete search in which the ring opened nothing. Key ids are names, not keys. */
export interface UnfitRing {
  readonly secrets: number
  /** Ids of the keys that the secrets were sealed with; at most 16. */
  readonly sealedWith: readonly string[]
}

/** What a gate is made of. */
export interface KeyRingGateOptions {
  readonly pool: Pool
  readonly keyRing: KeyRing
  /** Opens the gate although the ring opens nothing. Default false. */
  readonly replacesLost?: boolean
  /** Called once, when the gate opens. Must not throw. */
  onOpened(opening: GateOpening): void
  /** Called after the first complete search in which nothing could be opened. Must not throw. */
  onUnfit(unfit: UnfitRing): void
}

const pageRows = 100
/** Bound of one look: 2 000 secrets, some 20 ms of work. */
const pagesMax = 20
const keyIdsMax = 16

/**
 * Keeps a process out of service until its key ring has opened one of the secrets sealed in Postgres, so that a rollout with a wrong
 * ring stops at its first pod. A start-up gate: once open it stays open, since closing it later would take all pods out of service at
 * once. Opens at once where nothing is sealed.
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

  /** Whether the ring was proven. Never goes back to false. */
  get isOpen(): boolean {
    return this.#isOpen
  }

  /** Settles when the gate opens. */
  get opened(): Promise<void> {
    return this.#opened.promise
  }

  /** The result of the last complete search while the gate is shut; undefined before one, and once it is open. */
  get unfit(): UnfitRing | undefined {
    return this.#isOpen ? undefined : this.#unfit
  }

  /** The readiness check. */
  check(): CheckResult {
    if (this.#isOpen) return { ok: true }
    const reason = this.#unfit
      ? `the key ring opens none of ${this.#unfit.secrets} sealed secrets: see LATCHKEY_KEY_RING`
      : 'no sealed secret has been opened with the key ring yet'
    return { ok: false, reason }
  }

  /**
   * Searches on for a secret that opens, at most 2 000 of them; a later call goes on from there, and begins again at the end. Does
   * nothing once the gate is open. @throws what Postgres throws; repeating it is safe
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
