import { type Acquisition, acquire } from './acquire.ts'
import { HeldLock } from './held-lock.ts'
import type { Codec, Debug, OnceOptions, Recovery, Tracer, Work, WorkContext } from './options.ts'
import { type Outcome, type Pending, takeNothingHappened } from './outcome.ts'
import type { RecordCache } from './record-cache.ts'
import { saveRecord, saveText } from './records.ts'
import { repeat } from './repeat.ts'
import { callMsMax, type Reply, type Service } from './service.ts'

/** Default of `saveMs`. */
export const saveMsDefault = 30_000
const spanError = { code: 2 }

/** Members of `Latchkey` that a call of `once` uses. */
export interface Parts {
  readonly service: Service
  readonly debug: Debug
  readonly tracer: Tracer | undefined
  readonly cache: RecordCache | undefined
}

/** One operation: its options, `work`, and the conversion of its result. */
interface Operation<T> {
  readonly parts: Parts
  readonly codec: Codec<T>
  readonly options: OnceOptions<T>
  readonly work: Work<T>
  readonly acquisition: Acquisition
}

/** Runs `work` at most once per scope and key, with a result in any form that the codec converts. Reports the outcome to debug and tracer. */
export async function runOnce<T>(
  parts: Parts,
  codec: Codec<T>,
  options: OnceOptions<T>,
  work: Work<T>,
): Promise<Outcome<T>> {
  const { scope, key, fingerprint, ttlSeconds, signal } = options
  const { lockSeconds = 60, waitMs = 10_000, acquireMs = 10_000 } = options
  const { saveMs = saveMsDefault } = options
  if (!(waitMs >= 0 && acquireMs >= 0 && saveMs >= 0 && lockSeconds > 0))
    throw new TypeError('Latchkey: `waitMs`, `acquireMs`, `saveMs` and `lockSeconds` must not be negative')
  const attemptId = crypto.randomUUID()
  const acquisition = {
    scope,
    key,
    fingerprint,
    ttlSeconds,
    signal,
    attemptId,
    lockSeconds,
    waitMs,
    acquireMs,
  }
  const span = parts.tracer?.startSpan('latchkey.once', { attributes: { 'latchkey.scope': scope } })
  let attempts = 0
  let kind = 'exception'
  try {
    const outcome = await runOperation({ parts, codec, options, work, acquisition }, () => {
      attempts += 1
    })
    kind = outcome.kind
    return outcome
  } catch (error) {
    // Removes the mark, which does not apply to an outer operation that the error may pass through.
    takeNothingHappened(error)
    span?.setStatus(spanError)
    throw error
  } finally {
    parts.debug('once ended', { scope, attemptId, outcome: kind, attempts })
    span?.setAttribute('latchkey.outcome', kind)
    span?.setAttribute('latchkey.attempts', attempts)
    span?.end()
  }
}

const optionNames: Readonly<Record<keyof OnceOptions<unknown>, true>> = {
  scope: true,
  key: true,
  fingerprint: true,
  ttlSeconds: true,
  lockSeconds: true,
  waitMs: true,
  acquireMs: true,
  saveMs: true,
  signal: true,
  onTakenOver: true,
  onUnavailable: true,
}

/** @throws TypeError for a misspelt option, which JavaScript would ignore */
export function refuseUnknownOptions(options: object): void {
  for (const name in options)
    if (!Object.hasOwn(optionNames, name))
      throw new TypeError(
        `Latchkey: \`once\` has no option \`${name}\`: it takes ${Object.keys(optionNames).join(', ')}`,
      )
}

async function runOperation<T>(operation: Operation<T>, onCall: () => void): Promise<Outcome<T>> {
  const { parts, codec, options, acquisition } = operation
  const { service, debug, cache } = parts
  const { scope, attemptId, lockSeconds, signal } = acquisition
  signal?.throwIfAborted()
  const cached = cache?.get(options, options.fingerprint)
  if (cached) return { kind: 'replayed', value: codec.fromRecord(cached) }
  const acquired = await acquire({ service, debug, onCall }, acquisition)
  switch (acquired.kind) {
    case 'hit':
      cache?.set(options, acquired.record)
      return { kind: 'replayed', value: codec.fromRecord(acquired.record) }
    case 'locked': {
      const { lock, heldFromMs } = acquired
      const takenOver = lock.takenOver === true
      debug('lock acquired', { scope, attemptId, fence: lock.fence, takenOver })
      const address = { scope, key: options.key }
      const held = new HeldLock({ service, debug, address, lock, lockSeconds, heldFromMs, signal })
      try {
        return await runLocked(operation, held, {
          signal: held.signal,
          fence: lock.fence,
          takenOver,
          attemptId,
        })
      } finally {
        held.stop()
      }
    }
    case 'unavailable':
      return options.onUnavailable === 'run' ? runUnguarded(operation) : acquired
    default:
      return acquired
  }
}

async function runUnguarded<T>({ options, acquisition, work }: Operation<T>): Promise<Outcome<T>> {
  const signal = options.signal ?? new AbortController().signal
  const context = { signal, fence: undefined, takenOver: false, attemptId: acquisition.attemptId }
  return { kind: 'ran', value: await work(context), guarded: false }
}

async function runLocked<T>(
  operation: Operation<T>,
  held: HeldLock,
  context: WorkContext,
): Promise<Outcome<T>> {
  const { codec, options, work } = operation
  const { scope, key, ttlSeconds } = options
  const recovery = await decide(options, held, context)
  if (recovery === 'refuse') {
    await held.release()
    return { kind: 'taken_over', phase: 'before' }
  }
  // Checks again, because the lock or the caller may be gone since `onTakenOver` was called.
  if (recovery === 'run' && context.takenOver && context.signal.aborted) {
    await held.release()
    options.signal?.throwIfAborted()
    return { kind: 'taken_over', phase: 'before' }
  }
  let value: T
  let pending: Pending
  let text: string
  try {
    value = recovery === 'run' ? await work(context) : recovery.recovered
    const record = codec.toRecord(value)
    pending = {
      scope,
      key,
      lockToken: held.lockToken,
      record,
      ...(ttlSeconds !== undefined && { ttlSeconds }),
    }
    text = saveText(pending)
  } catch (error) {
    const hasNoEffect = takeNothingHappened(error)
    const isExplained = held.explains(error)
    await (hasNoEffect ? held.release() : held.shorten())
    if (isExplained) return { kind: 'taken_over', phase: 'during' }
    throw error
  }
  const saved = await save(operation.parts, { pending, text, value }, options)
  if (saved.kind !== 'ran') return saved
  operation.parts.cache?.set(options, pending.record)
  return recovery === 'run' ? saved : { kind: 'replayed', value }
}

/** Decides by `onTakenOver` whether `work` runs. An exception of the callback releases the lock, since `work` did not run. */
async function decide<T>(
  { onTakenOver = 'refuse' }: OnceOptions<T>,
  held: HeldLock,
  context: WorkContext,
): Promise<Recovery<T>> {
  if (!context.takenOver) return 'run'
  if (typeof onTakenOver === 'string') return onTakenOver
  try {
    return await onTakenOver(context)
  } catch (error) {
    await held.release()
    throw error
  }
}

/** Result to save. `text` is the encoded request, so that each retry sends the same bytes. */
export interface Unsaved<T> {
  readonly pending: Pending
  readonly text: string
  readonly value: T
}

/**
 * Saves a result, and retries a save without a usable answer for `saveMs`. An abort ends the retries, but not a call under way: its answer
 * says whether the result is saved.
 */
export async function save<T>(
  { service, debug }: Parts,
  { pending, text, value }: Unsaved<T>,
  {
    saveMs = saveMsDefault,
    signal,
  }: { readonly saveMs?: number | undefined; readonly signal?: AbortSignal | undefined },
): Promise<Outcome<T>> {
  const untilMs = performance.now() + saveMs
  const bounds = {
    untilMs,
    signal,
    onRepeat: ({ code }: { code: string }, pauseMs: number) =>
      debug('save repeated', { scope: pending.scope, code, pauseMs }),
  }
  const reply = await repeat(bounds, () => {
    const leftMs = saveMs === 0 ? callMsMax : untilMs - performance.now()
    const timeoutMs = Math.max(1, Math.min(callMsMax, leftMs))
    return saveRecord(service, text, { timeoutMs })
  })
  return outcomeOfSave(reply, pending, value)
}

function outcomeOfSave<T>(reply: Reply<true>, pending: Pending, value: T): Outcome<T> {
  switch (reply.kind) {
    case 'ok':
      return { kind: 'ran', value, guarded: true }
    case 'aborted':
      return { kind: 'unknown', value, pending, reason: 'aborted' }
    case 'failed':
      return { kind: 'unknown', value, pending, reason: 'no_answer', code: reply.code }
    case 'refused': {
      const { code, message } = reply
      if (code === 'lock_lost' || code === 'record_exists') return { kind: 'taken_over', phase: 'during' }
      return { kind: 'unknown', value, pending, reason: 'refused', code, message }
    }
    default:
      return reply satisfies never
  }
}
