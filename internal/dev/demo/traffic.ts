import { demoFates, demoHeader, demoReference } from './mark.ts'
import { type DemoEvent, type DemoMoment, makeDemoEvent, pick } from './payloads.ts'
import { demoSignature } from './sign.ts'

/** Where the demo's traffic goes. */
export interface DemoTarget {
  /** The API's address, without / at the end. */
  readonly url: string
  /** The sample tenant's slug and API key. */
  readonly slug: string
  readonly apiKey: string
}

/** What a step of the demo does: an event that is taken, one that comes again, one that is refused, or a call of the other two jobs. */
export type DemoStep =
  | 'event'
  | 'duplicate'
  | 'badSignature'
  | 'oldTimestamp'
  | 'notEnabled'
  | 'record'
  | 'simulation'

const callMsMax = 5_000
const burstEvents = 24
const oldMs = 3_600_000
/** Steps in a row that came to nothing, after which the demo gives up: somebody has changed the sample tenant. */
const failuresMax = 20
/** How the steps go, over and over. */
const round: readonly DemoStep[] = [
  ...([
    'event',
    'record',
    'event',
    'event',
    'badSignature',
    'event',
    'record',
    'event',
    'duplicate',
  ] as const),
  ...([
    'event',
    'event',
    'record',
    'oldTimestamp',
    'event',
    'event',
    'notEnabled',
    'event',
    'record',
  ] as const),
]
/** A simulation each so many steps: some ten minutes. */
const simulationEvery = 150

/**
 * Calls the API as providers and clients of the sample tenant would: one call a step, with what goes wrong in real life now and then.
 * Every event carries a mark, so that the receiver of callbacks knows it.
 */
export class DemoTraffic {
  readonly #target: DemoTarget
  readonly #random: () => number
  #steps = 0
  #failures = 0
  #last: DemoEvent | undefined

  constructor(target: DemoTarget, random: () => number = Math.random) {
    this.#target = target
    this.#random = random
  }

  /** Nothing came of the last 20 steps: it is better to stop. */
  get isFutile(): boolean {
    return this.#failures >= failuresMax
  }

  /** Some events of each kind one after the other, and a simulation, so that pages have something to show. Never fails. */
  async burst(signal: AbortSignal): Promise<void> {
    const steps: DemoStep[] = ['simulation', ...round, ...new Array<DemoStep>(burstEvents).fill('event')]
    for (const step of steps) {
      if (signal.aborted || this.isFutile) return
      await this.take(step, signal)
    }
  }

  /** Takes the next step. Never fails. */
  async next(signal: AbortSignal): Promise<void> {
    this.#steps += 1
    const isSimulation = this.#steps % simulationEvery === 0
    await this.take(isSimulation ? 'simulation' : (round[this.#steps % round.length] ?? 'event'), signal)
  }

  /** Takes a step; true when it was answered as it should be. Never fails. */
  async take(step: DemoStep, signal: AbortSignal): Promise<boolean> {
    const wentWell = await this.#do(step, signal).catch(() => false)
    this.#failures = wentWell ? 0 : this.#failures + 1
    return wentWell
  }

  async #do(step: DemoStep, signal: AbortSignal): Promise<boolean> {
    const atMs = Date.now()
    switch (step) {
      case 'event':
        this.#last = makeDemoEvent(this.#moment())
        return (await this.#send(this.#last, { atMs }, signal)) === 200
      case 'duplicate':
        this.#last ??= makeDemoEvent(this.#moment())
        return (await this.#send(this.#last, { atMs }, signal)) === 200
      case 'badSignature':
        return (
          (await this.#send(
            makeDemoEvent(this.#moment()),
            { atMs, secret: 'of another account' },
            signal,
          )) === 400
        )
      case 'oldTimestamp':
        return (await this.#send(this.#timed(), { atMs: atMs - oldMs }, signal)) === 400
      case 'notEnabled':
        return (await this.#post(this.#hook('paypal'), '{"id":"WH-DEMO"}', {}, signal)) === 403
      case 'record':
        return await this.#record(signal)
      case 'simulation':
        return (await this.#simulate(signal)) === 202
    }
  }

  #moment(): DemoMoment {
    return { nowMs: Date.now(), random: this.#random }
  }

  /** An event of a provider that signs the time too. */
  #timed(): DemoEvent {
    const { body, headers } = makeDemoEvent({ ...this.#moment(), random: () => 0 })
    return { provider: 'card', body, headers }
  }

  #send(
    { provider, body, headers }: DemoEvent,
    signing: { readonly atMs: number; readonly secret?: string },
    signal: AbortSignal,
  ): Promise<number> {
    const chance = this.#random()
    const fate = demoFates[chance < 0.85 ? 0 : chance < 0.97 ? 1 : 2] ?? 'taken'
    const own = { ...headers, ...demoSignature(provider, body, signing), [demoHeader]: fate }
    return this.#post(this.#hook(provider), body, own, signal)
  }

  #hook(provider: string): string {
    return `/v1/t/${this.#target.slug}/webhooks/${provider}`
  }

  /** A checkout that runs once, and at times is asked for once more. */
  async #record(signal: AbortSignal): Promise<boolean> {
    const at = { scope: 'demo-checkout', key: `order-${crypto.randomUUID().slice(0, 8)}` }
    const acquired = await this.#keyed('POST', { ...at, lockSeconds: 30 }, signal)
    const { lockToken } = (await acquired.json()) as { lockToken?: string }
    if (lockToken === undefined) return false
    // Some callers die on the way.
    if (this.#random() < 0.1) return true
    const charged = {
      id: `ch_${crypto.randomUUID().slice(0, 8)}`,
      amount: pick([1490, 3900, 5450], this.#random),
    }
    const saved = await this.#keyed('PUT', { ...at, lockToken, status: 201, body: charged }, signal)
    await saved.body?.cancel()
    if (this.#random() < 0.3) await (await this.#keyed('POST', at, signal)).body?.cancel()
    return saved.ok
  }

  async #simulate(signal: AbortSignal): Promise<number> {
    const outcome = pick(['won', 'lost'], this.#random)
    const reference = demoReference + crypto.randomUUID().slice(0, 8)
    const body = { provider: 'card', amount: 4200, currency: 'EUR', outcome, stepSeconds: 60, reference }
    return await this.#post(
      '/v1/simulate/chargeback',
      JSON.stringify(body),
      { authorization: `Bearer ${this.#target.apiKey}` },
      signal,
    )
  }

  #keyed(method: 'POST' | 'PUT', body: object, signal: AbortSignal): Promise<Response> {
    const headers = { authorization: `Bearer ${this.#target.apiKey}` }
    return this.#call('/v1/record', { method, headers, body: JSON.stringify(body) }, signal)
  }

  async #post(
    path: string,
    body: string,
    headers: Readonly<Record<string, string>>,
    signal: AbortSignal,
  ): Promise<number> {
    const response = await this.#call(path, { method: 'POST', headers, body }, signal)
    await response.body?.cancel()
    return response.status
  }

  #call(
    path: string,
    init: {
      readonly method: string
      readonly headers: Readonly<Record<string, string>>
      readonly body: string
    },
    signal: AbortSignal,
  ): Promise<Response> {
    return fetch(this.#target.url + path, {
      ...init,
      headers: { 'content-type': 'application/json', ...init.headers },
      signal: AbortSignal.any([signal, AbortSignal.timeout(callMsMax)]),
    })
  }
}
