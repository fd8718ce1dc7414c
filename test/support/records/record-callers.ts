import type { TenantId } from '#internal/base/index.ts'
import { acquireRecord, type Records } from '#internal/records/acquire.ts'
import { type RecordStore, RecordsUnavailable } from '#internal/records/store.ts'
import type { DirectoryTenant } from '#internal/tenants/index.ts'
import { directoryTenant } from '../tenants/directory-tenant.ts'
import { builtInLimits } from './built-in-limits.ts'
import type { History, HistoryCall, RecordedCall } from './record-history.ts'
import { labStartMs, type RecordLab } from './record-lab.ts'

/** Size of a simulation. */
export interface SimulationOptions {
  readonly seed: number
  readonly callers: number
  readonly rounds: number
  readonly keys: readonly string[]
  /** Default: a new tenant of the lab. */
  readonly tenantId?: TenantId
  /** Returns the store of the process that serves the next call. Default: the lab's. */
  readonly storeOf?: () => RecordStore
}

const scope = 's'
const lockMs = 10_000
const ttlMs = 3_600_000
const waitMsMax = 40
const movedTriesMax = 1000

/**
 * Runs concurrent callers that crash, come late, lose replies, wait, release, remove, save without a token, and move the clock back
 * and forth, and records their calls. The seed determines each caller's actions; their interleaving depends on Redis.
 */
export async function simulateCallers(lab: RecordLab, options: SimulationOptions): Promise<History> {
  const tenantId = options.tenantId ?? (await lab.createTenant())
  const scene = new Scene(lab, tenantId, options.storeOf ?? (() => lab.store))
  const callers = Array.from({ length: options.callers }, async (_none, caller) => {
    const dice = new Dice(options.seed * 1000 + caller)
    for (let round = 0; round < options.rounds; round += 1) {
      await runOnce(scene, dice, dice.pick(options.keys), `c${caller}r${round}`)
    }
  })
  await Promise.all(callers)
  return scene
}

/** Steps of one caller with one key. */
async function runOnce(scene: Scene, dice: Dice, key: string, name: string): Promise<void> {
  const attemptId = dice.happens(0.5) ? name : ''
  const waitMs = dice.happens(0.3) ? dice.upTo(waitMsMax) : 0
  let outcome = await scene.acquire(key, { attemptId, waitMs })
  // Repeats the call with the same attempt id, as a caller does whose first reply was lost.
  if (attemptId !== '' && dice.happens(0.3)) {
    outcome = await scene.acquire(key, { attemptId, waitMs: 0 })
  }
  if (outcome.kind === 'hit' && dice.happens(0.4)) await scene.remove(key)
  if (outcome.kind === 'busy' && dice.happens(0.2)) await scene.moveClock(dice.upTo(lockMs))
  if (outcome.kind === 'busy' && dice.happens(0.05)) await scene.save(key, '', name)
  if (outcome.kind === 'locked') await finish(scene, dice, key, { token: outcome.lockToken, name })
  if (dice.happens(0.1)) await scene.moveClock(-dice.upTo(lockMs))
}

async function finish(scene: Scene, dice: Dice, key: string, run: { token: string; name: string }) {
  const { token, name } = run
  if (dice.happens(0.2)) return // The caller crashes.
  if (dice.happens(0.2)) await scene.extend(key, token)
  if (dice.happens(0.4)) await scene.moveClock(lockMs + dice.upTo(lockMs))
  for (let step = dice.upTo(4); step > 0; step -= 1) await scene.fetch(key)
  if (dice.happens(0.2)) return scene.release(key, token)
  await scene.save(key, token, name)
  if (dice.happens(0.2)) await scene.save(key, token, name)
  if (dice.happens(0.3)) await scene.remove(key)
}

/** Calls of a simulation, recorded with start and end. */
class Scene implements History {
  readonly calls: HistoryCall[] = []
  readonly clock = [{ startedAt: 0, endedAt: 0, nowMs: labStartMs }]
  readonly #lab: RecordLab
  readonly #storeOf: () => RecordStore
  readonly #tenant: DirectoryTenant
  readonly #records: Records
  #turn = 0
  #moving: Promise<void> = Promise.resolve()

  constructor(lab: RecordLab, tenantId: TenantId, storeOf: () => RecordStore) {
    this.#lab = lab
    this.#storeOf = storeOf
    this.#tenant = directoryTenant({ id: tenantId })
    this.#records = {
      storeOf,
      waiters: lab.waiters,
      ttlSecondsMax: 86_400,
      bodyBytesMax: 10_000,
      limitsOf: builtInLimits,
      onChecked: () => undefined,
    }
  }

  async acquire(key: string, { attemptId, waitMs }: { attemptId: string; waitMs: number }) {
    const call = await this.#record(key, async () => {
      const outcome = await acquireRecord(this.#records, this.#tenant, {
        scope,
        key,
        waitMs,
        ttlSeconds: ttlMs / 1000,
        lockSeconds: lockMs / 1000,
        ...(attemptId !== '' && { attemptId }),
      })
      if ('code' in outcome) throw new Error(`a check was refused: ${outcome.code}`)
      return { do: 'acquire' as const, lockMs, outcome }
    })
    return call.outcome
  }

  async save(key: string, token: string, record: string): Promise<void> {
    const input = { ...this.#address(key), lockToken: token, record, ttlMs: null, defaultTtlMs: ttlMs }
    await this.#record(key, async () => {
      const { kind: outcome } = await this.#storeOf().save(input)
      return { do: 'save' as const, token, record, outcome }
    })
  }

  async remove(key: string): Promise<void> {
    await this.#record(key, async () => {
      const existed = await this.#storeOf().remove(this.#address(key), '')
      return { do: 'remove' as const, existed }
    })
  }

  async release(key: string, token: string): Promise<void> {
    await this.#record(key, async () => {
      const existed = await this.#storeOf().remove(this.#address(key), token)
      return { do: 'release' as const, token, existed }
    })
  }

  async extend(key: string, token: string): Promise<void> {
    await this.#record(key, async () => {
      const { kind: outcome } = await this.#storeOf().extend(this.#address(key), token, lockMs)
      return { do: 'extend' as const, token, lockMs, outcome }
    })
  }

  async fetch(key: string): Promise<void> {
    await this.#record(key, async () => {
      const outcome = await this.#storeOf().fetch(this.#address(key))
      return { do: 'fetch' as const, outcome }
    })
  }

  /** Moves the clock, in the order of calls. */
  moveClock(byMs: number): Promise<void> {
    this.#moving = this.#moving.then(async () => {
      const nowMs = (this.clock.at(-1)?.nowMs ?? labStartMs) + byMs
      const startedAt = this.#next()
      await this.#lab.setClock(this.#tenant.id, nowMs)
      this.clock.push({ startedAt, endedAt: this.#next(), nowMs })
    })
    return this.#moving
  }

  async #record<Call extends RecordedCall>(key: string, make: () => Promise<Call>): Promise<Call> {
    const startedAt = this.#next()
    const call = await repeatWhileMoved(make)
    this.calls.push({ key, startedAt, endedAt: this.#next(), ...call })
    return call
  }

  #next(): number {
    this.#turn += 1
    return this.#turn
  }

  #address(key: string) {
    return { tenantId: this.#tenant.id, scope, key }
  }
}

/** Repeats a call on other processes while it is refused, unchanged, because the process has not learnt of a move. */
async function repeatWhileMoved<T>(make: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await make()
    } catch (error) {
      const isMoved = error instanceof RecordsUnavailable && error.reason === 'moved'
      if (!isMoved || tries >= movedTriesMax) throw error
    }
  }
}

/** Seeded random numbers: mulberry32. */
export class Dice {
  #state: number

  constructor(seed: number) {
    this.#state = seed | 0
  }

  happens(probability: number): boolean {
    return this.#roll() < probability
  }

  /** A whole number from 1 to `most`. */
  upTo(most: number): number {
    return 1 + Math.floor(this.#roll() * most)
  }

  pick<T>(from: readonly T[]): T {
    return from[Math.floor(this.#roll() * from.length)] as T
  }

  #roll(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}
