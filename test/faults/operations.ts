import { until } from '#test/support/until.ts'
import type { EventCounts } from './event-ledger.ts'
import { acquire, type Caller, save } from './record-calls.ts'

/** Result of operations that must run once. */
export interface OperationCounts {
  /** Counts under the names of all faults: begun, saved, found again, saved and not found, granted twice. */
  readonly counts: EventCounts
  /** Times (`performance.now()`) at which lost records were saved. */
  readonly lostAtMs: readonly number[]
  /** Times at which operations that were granted again had been granted or saved before. */
  readonly secondRunsAtMs: readonly number[]
  /** Second runs whose fence is not higher than the first's. */
  readonly fencesBack: number
}

/** Callers that run one operation after another, until `end`. */
export interface OperationLoad {
  /** Returns the number of refused calls. */
  refusals(): number
  /** Waits until `count` further operations are saved. @throws after 30 s */
  untilDone(count: number): Promise<void>
  end(): Promise<void>
  /** Acquires the key of every saved operation again, as a retried request does. */
  lookAgain(): Promise<OperationCounts>
}

interface Run {
  readonly fence: number
  /** Time of the grant; after a save, time of its answer. */
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

/** Starts operations of the caller's tenant, each acquired under an attempt id and saved with its token. */
export function startOperations(caller: Caller, name: string): OperationLoad {
  const operations: Operation[] = []
  let refused = 0
  let done = 0
  let ending = false
  /** Repeats a call until the answer is not a refusal by an unavailable store. */
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
      // Ends, because an earlier save took effect although its answer was lost.
      if (token === undefined) return
      const body = { saved: operation.key }
      const answer = await insist(() => save(caller, operation.key, body, token))
      // 409: the lock is lost, so this run is not recorded.
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
