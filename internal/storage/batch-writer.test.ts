import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { poll } from '#internal/dev/index.ts'
import { testSeed } from '#test/support/seed.ts'
import {
  BatchWriter,
  BufferedWriter,
  type RowWrite,
  retryWithBackoff,
  takeBatch,
  writeRows,
  writeRowsOrThrow,
} from './batch-writer.ts'

const sqlError = (code: string) => Object.assign(new Error(`failed with ${code}`), { code })
const rejection = () => sqlError('22021')
const away = () => sqlError('ECONNREFUSED')
const turn = () => new Promise((resolve) => setImmediate(resolve))

/** A statement that answers as it is told, call by call; then it writes. */
function scripted(answers: readonly (Error | 'ok')[], more: Partial<RowWrite<number, string>> = {}) {
  const calls: number[][] = []
  const statement: RowWrite<number, string> = {
    write: async (rows) => {
      const answer = answers[calls.length] ?? 'ok'
      calls.push([...rows])
      if (answer !== 'ok') throw answer
      return rows.map((row) => `row ${row}`)
    },
    ...more,
  }
  return { calls, statement }
}

async function kindsOf(rows: readonly number[], statement: RowWrite<number, string>): Promise<string[]> {
  return (await writeRows(rows, statement)).map(({ kind }) => kind)
}

describe('writeRows', () => {
  const four = [1, 2, 3, 4]
  const written = Array(4).fill('written')
  const unavailable = Array(4).fill('unavailable')
  const cases: readonly {
    readonly name: string
    readonly answers: readonly (Error | 'ok')[]
    readonly more?: Partial<RowWrite<number, string>>
    readonly kinds: readonly string[]
    readonly calls: number
  }[] = [
    { name: 'writes a batch in one statement', answers: [], kinds: written, calls: 1 },
    { name: 'writes again after a deadlock', answers: [sqlError('40P01')], kinds: written, calls: 2 },
    {
      name: 'gives up after four deadlocks in a row',
      answers: Array(9).fill(sqlError('40P01')),
      kinds: unavailable,
      calls: 4,
    },
    {
      name: 'writes again once it has created a missing partition',
      answers: [sqlError('23514')],
      more: { createPartitions: async () => undefined },
      kinds: written,
      calls: 2,
    },
    {
      name: 'returns unavailable for a missing partition that cannot be created',
      answers: [sqlError('23514')],
      more: { createPartitions: () => Promise.reject(away()) },
      kinds: unavailable,
      calls: 1,
    },
    {
      name: 'halves a batch whose partition is missing after its creation, and creates none for the halves',
      answers: [...Array(4).fill(sqlError('23514')), 'ok', sqlError('23514'), sqlError('23514')],
      more: { createPartitions: async () => undefined },
      kinds: ['written', 'written', 'unavailable', 'written'],
      calls: 8,
    },
    {
      name: 'returns unavailable for a missing table',
      answers: [sqlError('42P01')],
      kinds: unavailable,
      calls: 1,
    },
    { name: 'sends one statement to an unavailable store', answers: [away()], kinds: unavailable, calls: 1 },
    {
      name: 'repeats the write while retry returns true',
      answers: [away(), away()],
      more: { retry: async () => true },
      kinds: written,
      calls: 3,
    },
    {
      name: 'halves a rejected batch, and does not send the second half after the store fails in the first',
      answers: [rejection(), away()],
      kinds: unavailable,
      calls: 2,
    },
    {
      name: 'keeps the results of the first half when the store fails in the second',
      answers: [rejection(), 'ok', away()],
      kinds: ['written', 'written', 'unavailable', 'unavailable'],
      calls: 3,
    },
  ]

  test.each(cases)('writeRows: $name', async ({ answers, more, kinds, calls }) => {
    const told = scripted(answers, more)
    expect(await kindsOf(four, told.statement)).toEqual([...kinds])
    expect(told.calls).toHaveLength(calls)
  })

  test('writeRows: sends no statement for an empty batch', async () => {
    const { calls, statement } = scripted([])
    expect(await writeRows([], statement)).toEqual([])
    expect(calls).toEqual([])
  })

  test('writeRows: rejects only the invalid rows and writes each valid row once, in at most 2n statements', async () => {
    const property = fc.asyncProperty(
      fc.array(fc.boolean(), { minLength: 1, maxLength: 200 }),
      async (bad) => {
        const written: number[] = []
        let statements = 0
        const results = await writeRows([...bad.keys()], {
          write: async (rows) => {
            statements += 1
            if (rows.some((row) => bad[row])) throw rejection()
            written.push(...rows)
            return rows
          },
        })
        expect(results.map(({ kind }) => kind === 'rejected')).toEqual(bad)
        expect(results.flatMap((one) => (one.kind === 'written' ? [one.result] : []))).toEqual(written)
        expect(statements).toBeLessThan(2 * bad.length + 1)
      },
    )
    await fc.assert(property, { seed: testSeed() })
  })

  test('writeRowsOrThrow: returns rejected rows, and throws the error of an unavailable store', async () => {
    const bad = scripted([rejection(), rejection()])
    const rejected = await writeRowsOrThrow([1, 2], bad.statement)
    expect(rejected.map(({ row }) => row)).toEqual([1])
    expect(writeRowsOrThrow([1, 2], scripted([away()]).statement)).rejects.toThrow('ECONNREFUSED')
  })

  test('retryWithBackoff: waits longer before each attempt, and stops after its maximum of attempts or on abort', async () => {
    const stopping = new AbortController()
    const waits: number[] = []
    const retry = (triesMax: number) =>
      retryWithBackoff({
        triesMax,
        waits: { firstMs: 100, maxMs: 1_000 },
        signal: stopping.signal,
        onFailed: () => undefined,
        sleep: async (ms) => void waits.push(ms),
      })
    const { calls, statement } = scripted(Array(9).fill(away()), { retry: retry(5) })
    expect(await kindsOf([1], statement)).toEqual(['unavailable'])
    expect(calls).toHaveLength(5)
    expect(waits).toHaveLength(5)
    expect(Math.min(...waits)).toBeGreaterThanOrEqual(50)
    expect(waits[4]).toBeGreaterThan(waits[0] ?? 0)
    stopping.abort()
    expect(await retry(5)(away())).toBe(false)
  })
})

describe('takeBatch', () => {
  const bytesOf = (bytes: number) => bytes
  const cases: readonly [name: string, queue: number[], taken: number[]][] = [
    ['no item from an empty queue', [], []],
    ['as many items as the maximum of bytes allows', [40, 60, 1], [40, 60]],
    ['an item above the maximum of bytes as a batch of its own', [101, 1], [101]],
    ['no more than the maximum count of items', [1, 1, 1, 1, 1], [1, 1, 1]],
  ]
  test.each(cases)('takeBatch: takes %s', (_name, queue, taken) => {
    expect(takeBatch(queue, { itemsMax: 3, bytesMax: 100, bytesOf })).toEqual(taken)
  })
})

/** A writer whose batches end when the test says so. */
function heldWriter(options: Partial<ConstructorParameters<typeof BatchWriter<number>>[0]> = {}) {
  const batches: { readonly items: number[]; end(): void; markLate(): void }[] = []
  const writer = new BatchWriter<number>({
    itemsMax: 10,
    write: (items, markLate) => {
      const { promise, resolve } = Promise.withResolvers<void>()
      batches.push({ items, end: resolve, markLate })
      return promise
    },
    ...options,
  })
  const add = (count: number) => Array.from({ length: count }, (_none, at) => writer.add(at))
  const sizes = () => batches.map(({ items }) => items.length)
  return { writer, batches, add, sizes }
}

describe('BatchWriter', () => {
  test('BatchWriter: writes a single item immediately, and collects items that arrive during the write into the next batch', async () => {
    const { writer, batches, add, sizes } = heldWriter()
    add(4)
    expect(sizes()).toEqual([1])
    expect(writer.size).toBe(4)
    batches[0]?.end()
    await turn()
    expect(sizes()).toEqual([1, 3])
  })

  test('BatchWriter: with deferred `microtask`, items that were added in one synchronous run are written as one batch', async () => {
    const { batches, add, sizes } = heldWriter({ deferred: 'microtask' })
    add(4)
    expect(sizes()).toEqual([])
    await turn()
    add(2)
    await turn()
    expect(sizes()).toEqual([4])
    batches[0]?.end()
    await turn()
    expect(sizes()).toEqual([4, 2])
  })

  test('BatchWriter: with deferred `turn`, items that were added in one turn of the event loop are written as one batch', async () => {
    const { writer, batches, sizes } = heldWriter({ deferred: 'turn' })
    writer.add(0)
    await Promise.resolve()
    writer.add(1)
    await Promise.resolve()
    expect(sizes()).toEqual([])
    await turn()
    expect(sizes()).toEqual([2])
    writer.add(2)
    batches[0]?.end()
    await turn()
    expect(sizes()).toEqual([2, 1])
  })

  test('BatchWriter: writes at most itemsMax items per batch', async () => {
    const { batches, add, sizes } = heldWriter()
    add(25)
    for (let at = 0; at < 3; at += 1) {
      batches[at]?.end()
      await turn()
    }
    expect(sizes()).toEqual([1, 10, 10, 4])
  })

  test('BatchWriter: starts a second concurrent batch only when parallelItems items wait, and never a third batch', () => {
    const { add, sizes } = heldWriter({ batchesMax: 2, parallelItems: 5 })
    add(5)
    expect(sizes()).toEqual([1])
    add(20)
    expect(sizes()).toEqual([1, 5])
  })

  test('BatchWriter: a late batch keeps its slot, and does not delay later items', () => {
    const { batches, add, sizes } = heldWriter({ batchesMax: 2, parallelItems: 5 })
    add(1)
    batches[0]?.markLate()
    batches[0]?.markLate()
    add(2)
    expect(sizes()).toEqual([1, 1])
    add(20)
    expect(sizes()).toEqual([1, 1])
  })

  test('BatchWriter: waits between the starts of two batches, unless enough items wait', async () => {
    let nowMs = 0
    const { batches, add, sizes } = heldWriter({ gather: { ms: 20, items: 3 }, now: () => nowMs })
    add(1)
    nowMs = 100
    batches[0]?.end()
    await turn()
    add(1)
    expect(sizes()).toEqual([1, 1])
    nowMs = 101
    batches[1]?.end()
    await turn()
    add(2)
    expect(sizes()).toEqual([1, 1])
    add(1)
    expect(sizes()).toEqual([1, 1, 3])
    batches[2]?.end()
    await turn()
    add(2)
    nowMs = 125
    await poll(async () => batches[3], { deadlineMs: 5_000, everyMs: 1 })
    expect(sizes()).toEqual([1, 1, 3, 2])
  })

  test('BatchWriter: refuses items when its queue is full, and counts the refused items', () => {
    const { writer, add } = heldWriter({ waitingMax: 2 })
    expect(add(5)).toEqual([true, true, true, false, false])
    expect(writer.dropped).toBe(2)
  })

  test('BatchWriter: takeWaiting removes the waiting items, and leaves the batch in flight unchanged', () => {
    const { writer, add } = heldWriter()
    add(4)
    expect(writer.takeWaiting()).toEqual([1, 2, 3])
    expect(writer.size).toBe(1)
  })

  test('BatchWriter: starts no batch while work of `tryInSlot` occupies its only slot', async () => {
    const { writer, batches, add, sizes } = heldWriter()
    const work = Promise.withResolvers<string>()
    const running = writer.tryInSlot(() => work.promise)
    expect(writer.tryInSlot(async () => 'no')).toBeUndefined()
    add(2)
    expect(sizes()).toEqual([])
    work.resolve('done')
    expect(await running).toBe('done')
    expect(sizes()).toEqual([2])
    batches[0]?.end()
  })

  test('BatchWriter: drain resolves after all items are written, or after its time limit', async () => {
    const { writer, batches, add } = heldWriter()
    await writer.drain(0)
    add(2)
    await writer.drain(1)
    expect(writer.size).toBe(2)
    const drained = writer.drain(60_000)
    for (const at of [0, 1]) {
      batches[at]?.end()
      await turn()
    }
    await drained
    expect(writer.size).toBe(0)
  })
})

test('BufferedWriter: repeats a failed batch unchanged before it writes the next batch', async () => {
  const buffer = [[1], [2], [3]]
  const written: number[][] = []
  let isAway = true
  const writer = new BufferedWriter<number[]>({
    take: () => buffer.shift(),
    write: async (batch) => {
      if (isAway) throw away()
      written.push(batch)
    },
  })
  await expect(writer.flush(2)).rejects.toThrow('ECONNREFUSED')
  expect(writer.pending).toEqual([1])
  isAway = false
  await writer.flush(2)
  expect(written).toEqual([[1], [2]])
  expect(writer.pending).toBeUndefined()
  await writer.flush(9)
  expect(written).toEqual([[1], [2], [3]])
})
