import { type Driver, startDriver } from '#clients/conformance/driver.ts'
import type { ClientOperation } from '#test/support/clients/client-ledger.ts'
import { Dice } from '#test/support/records/record-callers.ts'
import { until } from '#test/support/until.ts'

/** Way of an operation: in a transaction with its outcome, or by `once` with an effect of its own. */
type OperationKind = 'transaction' | 'once'

/** An operation that has ended. */
export interface LoadOperation extends ClientOperation {
  readonly kind: OperationKind
  readonly apiKey: string
}

/** Steps at which a worker can end itself. */
export const deaths = [
  'before the acquisition',
  'after the acquisition',
  'after the effect',
  'before the save',
  'after the save',
] as const

/** Operation, as a worker gets it. */
export interface WorkerRequest {
  readonly id: string
  readonly key: string
  readonly kind: OperationKind
  /** Address of the API and key of the tenant. */
  readonly url: string
  readonly apiKey: string
  readonly dieAt?: (typeof deaths)[number] | undefined
  readonly bounds: Readonly<Record<string, number>>
}

/** Options of `ClientLoad`. */
export interface ClientLoadOptions {
  readonly seed: number
  readonly operations: number
  readonly keys: number
  /** Share of the operations at which the worker ends itself. */
  readonly deathShare: number
  /** Commands that start the workers, and their environment. */
  readonly workers: readonly (readonly string[])[]
  readonly env: Readonly<Record<string, string>>
  readonly url: string
  /** API keys of tenants; the keys of operations are dealt out to them in turn. */
  readonly apiKeys: readonly string[]
}

/** Bounds of each operation in ms, and the lock's time. */
const bounds = { waitMs: 3000, acquireMs: 3000, saveMs: 3000, claimMs: 3000, commitMs: 4000, lockSeconds: 2 }
/**
 * Milliseconds within which each operation ends: its bounds one after another, a call of 5 s under way at the end of the acquisition, two
 * connections to the database of 2 s each, and a margin for a busy machine.
 */
export const operationMsMax = 40_000
const atOnce = 12
/** Keys that are used at the same time. */
const activeKeys = 20
/** One in so many keys belongs to operations of `once`. */
const onceEvery = 5
const decidedMsMax = 60_000

/** Workers of both languages, which run operations on the same keys. A worker that dies is replaced. */
export class ClientLoad {
  readonly done: LoadOperation[] = []
  kills = 0
  readonly #options: ClientLoadOptions
  readonly #dice: Dice
  readonly #workers: { driver: Driver; readonly command: readonly string[] }[]
  readonly #run: Promise<unknown>
  #next = 0
  #isEnding = false

  constructor(options: ClientLoadOptions) {
    this.#options = options
    this.#dice = new Dice(options.seed)
    const { workers, env } = options
    this.#workers = workers.map((command) => ({ command, driver: startDriver(command, env) }))
    const callers = this.#workers.flatMap((worker) =>
      Array.from({ length: atOnce }, () => this.#call(worker)),
    )
    this.#run = Promise.all(callers)
  }

  /** Waits until so many operations have ended. @throws after `msMax` */
  untilDone(count: number, msMax: number): Promise<unknown> {
    return until(`${count} operations`, () => this.done.length >= count, msMax)
  }

  /** Kills a worker while its operations are under way. */
  killOne(): void {
    this.kills += 1
    this.#dice.pick(this.#workers).driver.kill()
  }

  /** Waits for all operations, and then runs one more of each transaction's key until its outcome is known. Ends the workers. */
  async end(): Promise<void> {
    await this.#run
    const [worker] = this.#workers
    const keys = new Set(this.done.filter(({ kind }) => kind === 'transaction').map(({ key }) => key))
    const open = [...keys]
    const decide = async () => {
      for (let key = open.pop(); key !== undefined && worker; key = open.pop())
        await this.#decide(worker, key)
    }
    await Promise.all(Array.from({ length: atOnce }, decide))
    this.#isEnding = true
    for (const { driver } of this.#workers) driver.kill()
  }

  async #decide(worker: { driver: Driver }, key: string): Promise<void> {
    const untilMs = performance.now() + decidedMsMax
    while (performance.now() < untilMs) {
      const { told } = await this.#make(worker, this.#request(key, undefined))
      if (told?.outcome === 'ran' || told?.outcome === 'replayed') return
      await Bun.sleep(100)
    }
  }

  /** Makes operations one after another, as long as there are some. */
  async #call(worker: { driver: Driver; readonly command: readonly string[] }): Promise<void> {
    const { operations, keys, deathShare } = this.#options
    while (this.#next < operations) {
      const each = operations / keys
      const index = Math.min(keys - 1, Math.floor(this.#next / each) + this.#dice.upTo(activeKeys) - 1)
      this.#next += 1
      const dieAt = this.#dice.happens(deathShare) ? this.#dice.pick(deaths) : undefined
      await this.#make(worker, this.#request(`${this.#options.seed}-${index}`, dieAt))
    }
  }

  #request(key: string, dieAt: WorkerRequest['dieAt']): WorkerRequest {
    const { url, apiKeys } = this.#options
    const index = Number(key.split('-')[1])
    const apiKey = apiKeys[index % apiKeys.length] ?? ''
    const kind = Math.floor(index / apiKeys.length) % onceEvery === 0 ? 'once' : 'transaction'
    return { id: crypto.randomUUID(), key, kind, url, apiKey, dieAt, bounds }
  }

  async #make(
    worker: { driver: Driver; readonly command?: readonly string[] },
    request: WorkerRequest,
  ): Promise<LoadOperation> {
    const startedAtMs = performance.now()
    const { driver } = worker
    const { id, key, kind, apiKey } = request
    const told = await driver.start({ ...request }).result.then(
      (result) => result as unknown as ClientOperation['told'],
      () => undefined,
    )
    const operation = { id, key, kind, apiKey, tookMs: performance.now() - startedAtMs, told }
    this.done.push(operation)
    if (told === undefined && worker.driver === driver && worker.command && !this.#isEnding) {
      this.kills += 1
      worker.driver = startDriver(worker.command, this.#options.env)
    }
    return operation
  }
}
