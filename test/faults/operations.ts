import { until } from '#test/support/until.ts'
import type { EventCounts } from './event-ledger.ts'
import { acquire, type Caller, save } from './record-calls.ts'

/** What became of operations that have to run once. */
export interface OperationCounts {
  /** In the words that all faults are told in: begun, saved, found again, saved and not found, granted twice. */
  readonly counts: EventCounts
  /** When each save was answered whose record was not found again; `performance.now()`. */
  readonly lostAtMs: readonly number[]
  /** When each lock was granted, or its record saved, whose operation was granted once more. */
  readonly secondRunsAtMs: readonly number[]
  /** Second runs with a fence that is not greater than the first's. */
  readonly fencesBack: number
}

/** Callers that run one operation after another, until they are ended. */
export interface OperationLoad {
  /** Calls so far that were refused. */
  refusals(): number
  /** Waits until so many more have run and are saved. @throws after 30 s */
  untilDone(count: number): Promise<void>
  end(): Promise<void>
  /** Asks once more for every operation that is saved, as whoever repeats a request does. */
  lookAgain(): Promise<OperationCounts>
}

interface Run {
  readonly fence: number
  /** When it was granted; once it is saved, when that was answered. */
  atMs: number
}

interface Operation {
  readonly key: string
  readonly runs: Run[]
  isSaved: boolean
}

const callers = 8
const againMs = 20
const doneMsMax = 30_000
const lookAgainAtOnce = 16

/** Begins operations of the caller's tenant, each asked for under an attempt id and saved with its token. */
export function startOperations(caller: Caller, name: string): OperationLoad {
  const operations: Operation[] = []
  let refused = 0
  let done = 0
  let ending = false
  /** Calls until there is an answer that is none of the store's absence. */
  const insist = async (call: () => ReturnType<typeof acquire>) => {
    for (;;) {
      const { answer } = await call()
      if (answer.status !== 503) return answer
      refused += 1
      await Bun.sleep(againMs)
    }
  }
  const grant = async (operation: Operation, attemptId: string): Promise<string | undefined> => {
    const { json } = await insist(() => acquire(caller, operation.key, { attemptId }))
    if (json['locked'] !== true) return undefined
    operation.runs.push({ fence: Number(json['fence']), atMs: performance.now() })
    return String(json['lockToken'])
  }
  const runOnce = async (operation: Operation) => {
    while (!operation.isSaved) {
      const token = await grant(operation, crypto.randomUUID())
      // Saved before, by a call whose answer was lost.
      if (token === undefined) return
      const body = { saved: operation.key }
      const answer = await insist(() => save(caller, operation.key, body, token))
      // 409: the lock is gone, so nobody knows that this run was.
      operation.isSaved = answer.status === 200
      const run = operation.runs.at(-1)
      if (run && operation.isSaved) run.atMs = performance.now()
    }
  }
  const oneCaller = async () => {
    while (!ending) {
      const operation: Operation = { key: `${name}-${crypto.randomUUID()}`, runs: [], isSaved: false }
      operations.push(operation)
      await runOnce(operation)
      done += 1
    }
  }
  const all = Promise.all(Array.from({ length: callers }, oneCaller))
  return {
    refusals: () => refused,
    async untilDone(count) {
      const from = done
      await until(`${count} more operations`, () => done >= from + count, doneMsMax)
    },
    async end() {
      ending = true
      await all
    },
    async lookAgain() {
      const saved = operations.filter(({ isSaved }) => isSaved)
      const lostAtMs: number[] = []
      for (let from = 0; from < saved.length; from += lookAgainAtOnce) {
        const some = saved.slice(from, from + lookAgainAtOnce)
        await Promise.all(
          some.map(async (operation) => {
            const savedAtMs = operation.runs.at(-1)?.atMs ?? Number.NaN
            if ((await grant(operation, crypto.randomUUID())) !== undefined) lostAtMs.push(savedAtMs)
          }),
        )
      }
      return countsOf(operations, lostAtMs)
    },
  }
}

function countsOf(operations: readonly Operation[], lostAtMs: readonly number[]): OperationCounts {
  const again = operations.flatMap(({ runs }) =>
    runs.slice(1).map((run, index) => ({ before: runs[index] as Run, run })),
  )
  const acknowledged = operations.filter(({ isSaved }) => isSaved).length
  return {
    counts: {
      sent: operations.length,
      acknowledged,
      delivered: acknowledged - lostAtMs.length,
      lost: lostAtMs.length,
      twice: again.length,
    },
    lostAtMs,
    secondRunsAtMs: again.map(({ before }) => before.atMs),
    fencesBack: again.filter(({ before, run }) => run.fence <= before.fence).length,
  }
}
