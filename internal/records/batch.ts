import { type ApiError, apiError, errorEnvelope, type TenantId, within } from '#internal/base/index.ts'
import type { Answer, Parsed } from '#internal/http/index.ts'
import { type Acquired, acquireInput, type Records, type RecordTenant, toAcquired } from './acquire.ts'
import { acquiredText, explainStoreError, outcomeOf } from './answer.ts'
import { type AcquireOutcome, type CheckOutcome, suggestRetryMs } from './record.ts'
import type { BatchCheck } from './requests.ts'
import type { AcquireInput, RecordStore } from './store.ts'

export interface Batch {
  readonly tenant: RecordTenant
  readonly requestId: string
  readonly size: number
  check(index: number): Parsed<BatchCheck>
}

/** Maximum bytes of all records in one response. Checks with further records get an error. */
export const batchRecordBytesMax = 4 * 1024 * 1024
/** Checks of a batch that run concurrently. The process serves other calls between slices of this size. */
const sliceChecks = 20
/** Bytes of long records that are read concurrently. A longer record is read alone. */
const sliceBytes = 256 * 1024
/** Time after which checks without an outcome get the error `store_unavailable`. */
export const batchMsMax = 900

/**
 * Runs the checks of a batch in order, one slice at a time. Reads long records last, as many as fit into the response; a check whose record
 * does not fit gets an error and changes nothing.
 * @throws errors that do not come from the store
 */
export async function checkBatch(records: Records, batch: Batch): Promise<Answer> {
  const run = new BatchRun(records.storeOf(batch.tenant), batch)
  try {
    await run.check((index) => {
      const parsed = batch.check(index)
      return parsed.kind === 'error' ? parsed : acquireInput(records, batch.tenant, parsed.value)
    })
    const results = run.outcomes.map((outcome) => resultOf(records, outcome, batch))
    for (const { outcome } of results) records.onChecked(outcome)
    return answerOf(results)
  } finally {
    run.end()
  }
}

type Outcome = AcquireOutcome | ApiError

class BatchRun {
  readonly outcomes: (Outcome | undefined)[]
  readonly #store: RecordStore
  readonly #tenantId: TenantId
  readonly #inputs: AcquireInput[] = []
  readonly #overAtMs = performance.now() + batchMsMax
  #recordBytes = 0
  #bytesTaken = 0

  constructor(store: RecordStore, { tenant, size }: Batch) {
    this.#store = store
    this.#tenantId = tenant.id
    this.outcomes = Array.from({ length: size }, () => undefined)
  }

  async check(inputOf: (index: number) => AcquireInput | ApiError): Promise<void> {
    const indices = [...this.outcomes.keys()]
    for (let from = 0; from < indices.length; from += sliceChecks) {
      const slice = indices.slice(from, from + sliceChecks)
      await this.#inTime(slice, (index) => this.#ask(index, inputOf(index)))
    }
    for (const slice of slicesOf(this.outcomes)) await this.#inTime(slice, (long) => this.#read(long))
  }

  end(): void {
    this.#store.answers.give(this.#bytesTaken, this.#tenantId)
  }

  /** Runs `work` for each element, until the batch's deadline: then starts no work and does not wait for unfinished work. */
  async #inTime<T>(slice: readonly T[], work: (each: T) => Promise<void>): Promise<void> {
    const leftMs = this.#overAtMs - performance.now()
    if (leftMs > 0) await within<unknown>(leftMs, Promise.all(slice.map(work)), () => undefined)
  }

  async #ask(index: number, input: AcquireInput | ApiError): Promise<void> {
    if ('code' in input) {
      this.outcomes[index] = input
      return
    }
    this.#inputs[index] = input
    const outcome = await this.#acquire({ ...input, long: 'sized' })
    if (outcome.kind === 'hit') this.#recordBytes += Buffer.byteLength(outcome.record)
    this.outcomes[index] = outcome
  }

  async #read({ index, bytes }: LongCheck): Promise<void> {
    const input = this.#inputs[index]
    if (!input || !this.#take(bytes)) return
    this.outcomes[index] = await this.#acquire({ ...input, long: 'whole' })
  }

  #take(bytes: number): boolean {
    if (this.#recordBytes + bytes > batchRecordBytesMax) return false
    if (!this.#store.answers.take(bytes, this.#tenantId)) return false
    this.#recordBytes += bytes
    this.#bytesTaken += bytes
    return true
  }

  /** Returns an error of the store as the outcome of this check, so that other checks are not affected. */
  async #acquire(input: AcquireInput): Promise<Outcome> {
    try {
      return await this.#store.acquire(input)
    } catch (error) {
      const known = explainStoreError(error)
      if (known) return known
      throw error
    }
  }
}

interface LongCheck {
  readonly index: number
  readonly bytes: number
}

function slicesOf(outcomes: readonly (Outcome | undefined)[]): LongCheck[][] {
  const slices: LongCheck[][] = []
  let left = 0
  outcomes.forEach((outcome, index) => {
    if (outcome?.kind !== 'long') return
    const long = { index, bytes: outcome.bytes }
    left -= long.bytes
    if (left >= 0) return void slices.at(-1)?.push(long)
    slices.push([long])
    left = sliceBytes - long.bytes
  })
  return slices
}

interface Result {
  readonly text: string
  readonly outcome: CheckOutcome
  readonly retryAfterMs?: number
}

function resultOf(records: Records, outcome: Outcome | undefined, { tenant, requestId }: Batch): Result {
  const acquired = toAcquired(records, outcome ?? unanswered(), tenant)
  const retryAfterMs = retryAfterMsOf(acquired)
  return {
    text: acquired.kind === 'error' ? errorText(acquired, requestId, retryAfterMs) : acquiredText(acquired),
    outcome: outcomeOf(acquired),
    ...(retryAfterMs !== undefined && { retryAfterMs }),
  }
}

function unanswered(): ApiError {
  return apiError('store_unavailable', undefined, { 'Retry-After': '1' })
}

function retryAfterMsOf(acquired: Acquired | ApiError): number | undefined {
  if (acquired.kind === 'busy') return suggestRetryMs(acquired.remainingMs)
  const seconds = acquired.kind === 'error' ? acquired.headers?.['Retry-After'] : undefined
  return seconds === undefined ? undefined : Number(seconds) * 1000
}

function errorText(error: ApiError, requestId: string, retryAfterMs: number | undefined): string {
  return JSON.stringify({
    ...errorEnvelope(error, requestId),
    ...(retryAfterMs !== undefined && { retryAfterMs }),
  })
}

function answerOf(results: readonly Result[]): Answer {
  const retryAfterMs = Math.min(...results.map((result) => result.retryAfterMs ?? Number.POSITIVE_INFINITY))
  return {
    kind: 'answer',
    status: 200,
    body: `{"results":[${results.map(({ text }) => text).join(',')}]}`,
    outcome: 'batch',
    ...(Number.isFinite(retryAfterMs) && {
      headers: { 'Retry-After': String(Math.ceil(retryAfterMs / 1000)) },
    }),
    log: { checks: tallyOf(results) },
  }
}

function tallyOf(results: readonly Result[]): string {
  const counts = new Map<CheckOutcome, number>()
  for (const { outcome } of results) counts.set(outcome, (counts.get(outcome) ?? 0) + 1)
  return [...counts].map(([outcome, count]) => `${outcome} ${count}`).join(', ')
}
