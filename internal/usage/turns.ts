import { type Clock, Shares, type TenantId } from '#internal/base/index.ts'

/** Maximum running and waiting calls of a process. One tenant may use a quarter of them. */
const callsMax = 800
const waitMsMax = 5_000

/**
 * Runs calls that count a tenant's usage one after another, in the order of their arrival. Each needs a connection and then waits for the
 * lock of its month; without turns, one tenant would hold all connections of a pool.
 */
export class UsageTurns {
  readonly #clock: Clock
  readonly #calls = new Shares(callsMax)
  /** Per tenant, a promise that resolves when the tenant's last call has ended. It never rejects. */
  readonly #last = new Map<TenantId, Promise<void>>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** `busy`: `work` was not run, since too many calls wait or the wait was too long. @throws the error of `work`; later calls still run */
  async run<T>(
    tenantId: TenantId,
    work: () => Promise<T>,
  ): Promise<{ readonly kind: 'done'; readonly value: T } | { readonly kind: 'busy' }> {
    if (!this.#calls.take(1, tenantId)) return { kind: 'busy' }
    const untilMs = this.#clock.now() + waitMsMax
    const turn = (this.#last.get(tenantId) ?? Promise.resolve()).then(async () =>
      this.#clock.now() > untilMs
        ? ({ kind: 'busy' } as const)
        : ({ kind: 'done', value: await work() } as const),
    )
    const ended = turn.then(
      () => undefined,
      () => undefined,
    )
    this.#last.set(tenantId, ended)
    try {
      return await turn
    } finally {
      this.#calls.give(1, tenantId)
      if (this.#last.get(tenantId) === ended) this.#last.delete(tenantId)
    }
  }
}
