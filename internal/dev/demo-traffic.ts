import {
  cardPayment,
  type DemoEvent,
  type DemoSigning,
  demoFates,
  demoHeader,
  demoReference,
  demoSignature,
  makeDemoEvent,
  pick,
} from './demo-events.ts'

/** Address of the API, and the sample tenant's slug and API key. */
export interface DemoTarget {
  /** Without / at the end. */
  readonly url: string
  readonly slug: string
  readonly apiKey: string
}

/** One call of the demo. `badSignature`, `oldTimestamp` and `notEnabled` are calls that the API has to refuse. */
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
/** Failed steps in a row after which the demo ends: the sample tenant was changed. */
const failuresMax = 20
/** Order of the steps, repeated for ever. */
const steps: readonly DemoStep[] = [
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
/** Steps from one simulation to the next, about ten minutes. */
const simulationEvery = 150

/**
 * Calls the API as providers and clients of the sample tenant would, one call per step, with occasional failures. Every event carries
 * `demoHeader`, by which the receiver of callbacks knows it.
 */
export class DemoTraffic {
  readonly #target: DemoTarget
  readonly #random: () => number
  #stepCount = 0
  #failures = 0
  #last: DemoEvent | undefined

  constructor(target: DemoTarget, random: () => number = Math.random) {
    this.#target = target
    this.#random = random
  }

  /** True after 20 failed steps in a row: the caller should stop. */
  get isFutile(): boolean {
    return this.#failures >= failuresMax
  }

  /** Takes some steps of each kind at once, so that pages have something to show. Never fails. */
  async burst(signal: AbortSignal): Promise<void> {
    for (const step of ['simulation', ...steps, ...new Array<'event'>(burstEvents).fill('event')] as const) {
      if (signal.aborted || this.isFutile) return
      await this.take(step, signal)
    }
  }

  /** Takes the next step. Never fails. */
  async next(signal: AbortSignal): Promise<void> {
    this.#stepCount += 1
    const isSimulation = this.#stepCount % simulationEvery === 0
    await this.take(isSimulation ? 'simulation' : (steps[this.#stepCount % steps.length] ?? 'event'), signal)
  }

  /** Takes a step; returns whether the API answered as expected. Never fails. */
  async take(step: DemoStep, signal: AbortSignal): Promise<boolean> {
    const isOk = await this.#run(step, signal).catch(() => false)
    this.#failures = isOk ? 0 : this.#failures + 1
    return isOk
  }

  async #run(step: DemoStep, signal: AbortSignal): Promise<boolean> {
    const atMs = Date.now()
    const make = () => makeDemoEvent(atMs, this.#random)
    switch (step) {
      case 'event':
        this.#last = make()
        return (await this.#send(this.#last, { atMs }, signal)) === 200
      case 'duplicate':
        this.#last ??= make()
        return (await this.#send(this.#last, { atMs }, signal)) === 200
      case 'badSignature':
        return (await this.#send(make(), { atMs, secret: 'of another account' }, signal)) === 400
      case 'oldTimestamp':
        return (await this.#send(cardPayment(atMs, this.#random), { atMs: atMs - oldMs }, signal)) === 400
      case 'notEnabled':
        return (await this.#hook('paypal', { body: '{"id":"WH-DEMO"}', headers: {} }, signal)) === 403
      case 'record':
        return this.#record(signal)
      case 'simulation':
        return this.#simulate(signal)
    }
  }

  #send(event: DemoEvent, signing: DemoSigning, signal: AbortSignal): Promise<number> {
    const chance = this.#random()
    const fate = demoFates[chance < 0.85 ? 0 : chance < 0.97 ? 1 : 2]
    const headers = { ...event.headers, ...demoSignature(event, signing), [demoHeader]: fate }
    return this.#hook(event.provider, { body: event.body, headers }, signal)
  }

  async #hook(
    provider: string,
    { body, headers }: Pick<DemoEvent, 'body' | 'headers'>,
    signal: AbortSignal,
  ): Promise<number> {
    const path = `/v1/t/${this.#target.slug}/webhooks/${provider}`
    const response = await this.#call(path, { method: 'POST', body, headers }, signal)
    await response.body?.cancel()
    return response.status
  }

  /** Acquires and saves a checkout; sometimes the caller crashes in between, or asks once more afterwards. */
  async #record(signal: AbortSignal): Promise<boolean> {
    const at = { scope: 'demo-checkout', key: `order-${crypto.randomUUID().slice(0, 8)}` }
    const acquired = await this.#keyed('POST', '/v1/record', { ...at, lockSeconds: 30 }, signal)
    const { lockToken } = (await acquired.json()) as { lockToken?: string }
    if (lockToken === undefined) return false
    if (this.#random() < 0.1) return true
    const body = {
      id: `ch_${crypto.randomUUID().slice(0, 8)}`,
      amount: pick([1490, 3900, 5450], this.#random),
    }
    const saved = await this.#keyed('PUT', '/v1/record', { ...at, lockToken, status: 201, body }, signal)
    await saved.body?.cancel()
    if (this.#random() < 0.3) await (await this.#keyed('POST', '/v1/record', at, signal)).body?.cancel()
    return saved.ok
  }

  async #simulate(signal: AbortSignal): Promise<boolean> {
    const outcome = pick(['won', 'lost'], this.#random)
    const reference = demoReference + crypto.randomUUID().slice(0, 8)
    const body = { provider: 'card', amount: 4200, currency: 'EUR', outcome, stepSeconds: 60, reference }
    const response = await this.#keyed('POST', '/v1/simulate/chargeback', body, signal)
    await response.body?.cancel()
    return response.status === 202
  }

  #keyed(method: 'POST' | 'PUT', path: string, body: object, signal: AbortSignal): Promise<Response> {
    const headers = { authorization: `Bearer ${this.#target.apiKey}` }
    return this.#call(path, { method, headers, body: JSON.stringify(body) }, signal)
  }

  #call(path: string, init: RequestInit, signal: AbortSignal): Promise<Response> {
    return fetch(this.#target.url + path, {
      ...init,
      headers: { 'content-type': 'application/json', ...(init.headers as Record<string, string>) },
      signal: AbortSignal.any([signal, AbortSignal.timeout(callMsMax)]),
    })
  }
}
