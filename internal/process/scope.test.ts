import { expect, test } from 'bun:test'
import type { Logger } from '#internal/telemetry/index.ts'
import { OwnedScope } from './scope.ts'

function create() {
  const lines: { level: string; text: string; fields: object }[] = []
  const at = (level: string) => (fields: object, text: string) => {
    lines.push({ level, text, fields })
  }
  const log: Logger = {
    debug: at('debug'),
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
    flush: () => undefined,
  }
  const stops: unknown[] = []
  const scope = new OwnedScope({ log, stop: (error) => stops.push(error) })
  return { scope, lines, stops }
}

test('scope: closes resources in reverse order', async () => {
  const { scope } = create()
  const closed: string[] = []
  for (const name of ['a', 'b', 'c']) {
    const value = await scope.open({
      name,
      open: async () => name.toUpperCase(),
      close: (given) => closed.push(given),
    })
    expect(value).toBe(name.toUpperCase())
  }
  await scope.close(1000)
  expect(closed).toEqual(['C', 'B', 'A'])
})

test('scope: a step that fails to open throws its error and is not closed', async () => {
  const { scope } = create()
  const closed: string[] = []
  const fails = scope.open({
    name: 'x',
    open: () => {
      throw new TypeError('no')
    },
    close: () => closed.push('x'),
  })
  await expect(fails).rejects.toThrow(TypeError)
  await scope.close(1000)
  expect(closed).toEqual([])
})

test('scope: a closer that throws or hangs does not block the other closers', async () => {
  const { scope, lines } = create()
  const closed: string[] = []
  const add = (name: string, close: () => unknown, closeMsMax = 5000) =>
    scope.open({ name, open: () => name, close, closeMsMax })
  await add('first', () => closed.push('first'))
  await add('throws', () => {
    throw new Error('no')
  })
  await add('rejects', () => Promise.reject(new Error('no')))
  await add('hangs', () => new Promise(() => undefined), 20)
  await scope.close(10_000)
  expect(closed).toEqual(['first'])
  expect(lines.filter((line) => line.level === 'warn').map((line) => [line.text, line.fields])).toMatchObject(
    [
      ['step was not closed in time', { step: 'hangs' }],
      ['step failed to close', { step: 'rejects' }],
      ['step failed to close', { step: 'throws' }],
    ],
  )
})

test('scope: limits the total closing time, but still grants the last resources a minimum time', async () => {
  const { scope } = create()
  let closed = false
  await scope.open({
    name: 'first',
    open: () => 1,
    close: () => {
      closed = true
    },
  })
  await scope.open({
    name: 'hangs',
    open: () => 1,
    close: () => new Promise(() => undefined),
    closeMsMax: 60_000,
  })
  const startedMs = performance.now()
  await scope.close(50)
  expect(performance.now() - startedMs).toBeLessThan(5000)
  expect(closed).toBe(true)
})

test('scope: passes the remaining time to each closer, but at least the minimum', async () => {
  const { scope } = create()
  const told: number[] = []
  await scope.open({ name: 'last', open: () => 1, close: (_value, leftMs) => told.push(leftMs) })
  await scope.open({
    name: 'slow',
    open: () => 1,
    close: (_value, leftMs) => {
      told.push(leftMs)
      return new Promise(() => undefined)
    },
    closeMsMax: 60_000,
  })
  await scope.close(300)
  const [slow = 0, last] = told
  expect(slow).toBeWithin(250, 301)
  expect(last).toBe(200)
})

test('scope: after shutdown starts, closes a step that is still opening and opens no further step', async () => {
  const { scope } = create()
  const closed: string[] = []
  const { promise: gate, resolve: release } = Promise.withResolvers<string>()
  const opening = scope.open({ name: 'slow', open: () => gate, close: (value) => closed.push(value) })
  const closing = scope.close(1000)
  expect(scope.signal.aborted).toBe(true)
  release('opened late')
  await opening
  await closing
  expect(closed).toEqual(['opened late'])
  await expect(scope.open({ name: 'next', open: () => 1, close: () => undefined })).rejects.toThrow(
    'next is not opened',
  )
})

test('scope: a failed component stops the process with its error', () => {
  const { scope, stops } = create()
  const error = new Error('cannot go on')
  scope.stop(error)
  scope.stop()
  expect(stops).toEqual([error, undefined])
})
