import { describe, expect, test } from 'bun:test'
import { Deadlines } from './deadlines.ts'

const never = () => new Promise<string>(() => undefined)

describe('a guarded call', () => {
  test('gives its value when it comes in time', async () => {
    expect(await new Deadlines(1000).guard(Promise.resolve('value'), () => 'late')).toBe('value')
  })

  test('gives its error when that comes in time', async () => {
    const failing = new Deadlines(1000).guard(Promise.reject(new Error('own')), () => 'late')
    await expect(failing).rejects.toThrow('own')
  })

  test('gives what the deadline gives, at its time and at most a moment later', async () => {
    const startedAt = performance.now()
    expect(await new Deadlines(100).guard(never(), () => 'late')).toBe('late')
    expect(performance.now() - startedAt).toBeWithin(99, 800)
  })

  test('throws what the deadline throws', async () => {
    const late = new Deadlines(10).guard(never(), () => {
      throw new RangeError('too late')
    })
    await expect(late).rejects.toThrow(RangeError)
  })

  test('is told of its deadline once, and not at all when it was in time', async () => {
    const deadlines = new Deadlines(30)
    const told: string[] = []
    const { promise, resolve } = Promise.withResolvers<string>()
    const guarded = deadlines.guard(promise, () => String(told.push('slow')))
    await deadlines.guard(Promise.resolve('quick'), () => String(told.push('quick')))
    await guarded
    resolve('at last')
    await deadlines.guard(never(), () => '')
    expect(told).toEqual(['slow'])
  })
})

test('ten thousand calls under one timer each get their own end', async () => {
  const deadlines = new Deadlines(60)
  const ends = await Promise.all(
    Array.from({ length: 10_000 }, (_none, index) =>
      deadlines.guard(index % 2 === 0 ? Promise.resolve(`value ${index}`) : never(), () => `late ${index}`),
    ),
  )
  expect(ends).toEqual(ends.map((_end, index) => `${index % 2 === 0 ? 'value' : 'late'} ${index}`))
})
