import { randomUUID } from 'node:crypto'
import {
  cardPayment,
  type DemoEvent,
  type DemoOutcome,
  demoHeader,
  demoOutcomes,
  demoReference,
  demoSignature,
  makeDemoEvent,
  pick,
  type Random,
} from './demo-events.ts'

/** Address of the API, and the sample tenant's slug and API key. */
export interface DemoTarget {
  /** Base URL without a trailing slash. */
  readonly url: string
  readonly slug: string
  readonly apiKey: string
}

/** A repeated event, which the API accepts, and three kinds of events that the API refuses. */
const rareSteps = ['duplicate', 'badSignature', 'oldTimestamp', 'notEnabled'] as const
export type DemoStep = 'event' | 'record' | 'simulation' | (typeof rareSteps | typeof burstFailures)[number]

const callMsMax = 5_000
const burstEvents = 36
/** The delivery of these events fails at once: a replay delivers three of them, and one fails again. */
const burstFailures = ['mended', 'broken', 'mended', 'mended'] as const
const oldMs = 3_600_000
/** Maximum failed steps in a row. The demo then stops, since the sample tenant was probably changed. */
const failuresMax = 20

/** Chooses a step by its number: mostly events, and a simulation about every ten minutes. */
function stepOf(nth: number): DemoStep {
  if (nth % 150 === 0) return 'simulation'
  if (nth % 4 === 0) return 'record'
  return nth % 6 === 1 ? (rareSteps[Math.floor(nth / 6) % rareSteps.length] ?? 'event') : 'event'
}

/**
 * Calls the API as providers and clients of the sample tenant would, step by step, with occasional wrong calls. Accepted events have the
 * header `demoHeader`, by which the receiver of callbacks recognizes demo events.
 */
export class DemoTraffic {
  readonly #target: DemoTarget
  readonly #random: Random
  #stepCount = 0
  #failures = 0
  #last: DemoEvent | undefined

  constructor(target: DemoTarget, random: Random = Math.random) {
    this.#target = target
    this.#random = random
  }

  /** True after 20 failed steps in a row: the caller should stop. */
  get isFutile(): boolean {
    return this.#failures >= failuresMax
  }

  /** Runs steps of each kind without a pause, so that dashboard pages are not empty. Never fails. */
  async burst(signal: AbortSignal): Promise<void> {
    const events = new Array<DemoStep>(burstEvents).fill('event')
    const steps = [
      'simulation',
      'record',
      'record',
      'event',
      ...rareSteps,
      ...burstFailures,
      ...events,
    ] as const
    for (const step of steps) {
      if (signal.aborted || this.isFutile) return
      await this.take(step, signal)
    }
  }

  async next(signal: AbortSignal): Promise<void> {
    this.#stepCount += 1
    await this.take(stepOf(this.#stepCount), signal)
  }

  /** Runs one step and returns whether the API responded as expected. Never fails. */
  async take(step: DemoStep, signal: AbortSignal): Promise<boolean> {
    const isOk = await this.#run(step, signal).catch(() => false)
    this.#failures = isOk ? 0 : this.#failures + 1
    return isOk
  }

  async #run(step: DemoStep, signal: AbortSignal): Promise<boolean> {
    const atMs = Date.now()
    const make = () => makeDemoEvent(atMs, this.#random)
    const outcomeOf = (): DemoOutcome => {
      const chance = this.#random()
      return demoOutcomes[chance < 0.85 ? 0 : chance < 0.97 ? 1 : 2]
    }
    const sent = async (event: DemoEvent, signature: Record<string, string>, outcome = outcomeOf()) => {
      return this.#hook(
        { ...event, headers: { ...event.headers, ...signature, [demoHeader]: outcome } },
        signal,
      )
    }
    switch (step) {
      case 'event':
        this.#last = make()
        return (await sent(this.#last, demoSignature(this.#last, atMs))) === 200
      case 'duplicate':
        this.#last ??= make()
        return (await sent(this.#last, demoSignature(this.#last, atMs))) === 200
      case 'mended':
      case 'broken': {
        const event = cardPayment(atMs, this.#random)
        return (await sent(event, demoSignature(event, atMs), step)) === 200
      }
      case 'badSignature': {
        const event = make()
        return (await sent(event, demoSignature(event, atMs, 'of another account'))) === 400
      }
      case 'oldTimestamp': {
        const event = cardPayment(atMs, this.#random)
        return (await sent(event, demoSignature(event, atMs - oldMs))) === 400
      }
      case 'notEnabled':
        return (
          (await this.#hook(
            { provider: 'paypal', body: '{"id":"WH-DEMO"}', headers: { [demoHeader]: 'taken' } },
            signal,
          )) === 403
        )
      case 'record':
        return this.#record(signal)
      case 'simulation': {
        const ending = { outcome: pick(['won', 'lost'], this.#random), stepSeconds: 60 }
        const reference = demoReference + randomUUID().slice(0, 8)
        const body = { provider: 'card', amount: 4200, currency: 'EUR', ...ending, reference }
        return (await this.#keyed('POST', '/v1/simulate/chargeback', body, signal)).status === 202
      }
    }
  }

  async #hook(
    { provider, body, headers }: Omit<DemoEvent, 'provider'> & { readonly provider: string },
    signal: AbortSignal,
  ): Promise<number> {
    const path = `/v1/t/${this.#target.slug}/webhooks/${provider}`
    return (await this.#call(path, { method: 'POST', body, headers }, signal)).status
  }

  /** Acquires a lock for a checkout and saves its record. Sometimes simulates a crash in between, or a repeated request. */
  async #record(signal: AbortSignal): Promise<boolean> {
    const at = { scope: 'demo-checkout', key: `order-${randomUUID().slice(0, 8)}` }
    const acquired = await this.#keyed('POST', '/v1/record', { ...at, lockSeconds: 30 }, signal)
    const { lockToken } = acquired.json as { lockToken?: string }
    if (lockToken === undefined) return false
    if (this.#random() < 0.1) return true
    const body = { id: `ch_${randomUUID().slice(0, 8)}`, amount: pick([1490, 3900, 5450], this.#random) }
    const saved = await this.#keyed('PUT', '/v1/record', { ...at, lockToken, status: 201, body }, signal)
    if (this.#random() < 0.3) await this.#keyed('POST', '/v1/record', at, signal)
    return saved.status === 200
  }

  #keyed(method: 'POST' | 'PUT', path: string, body: object, signal: AbortSignal) {
    const headers = { authorization: `Bearer ${this.#target.apiKey}` }
    return this.#call(path, { method, headers, body: JSON.stringify(body) }, signal)
  }

  async #call(
    path: string,
    init: RequestInit,
    signal: AbortSignal,
  ): Promise<{ status: number; json: unknown }> {
    const response = await fetch(this.#target.url + path, {
      ...init,
      headers: { 'content-type': 'application/json', ...(init.headers as Record<string, string>) },
      signal: AbortSignal.any([signal, AbortSignal.timeout(callMsMax)]),
    })
    return { status: response.status, json: await response.json() }
  }
}
