import { expect, test } from 'bun:test'
import { within } from './within.ts'

const never = () => new Promise<string>(() => undefined)

test('work in time gives its value, or its error', async () => {
  expect(await within(1000, Promise.resolve('value'), () => 'late')).toBe('value')
  await expect(within(1000, Promise.reject(new Error('own')), () => 'late')).rejects.toThrow('own')
})

test('work that is late gives what the deadline gives or throws', async () => {
  expect(await within(10, never(), () => 'late')).toBe('late')
  const thrown = within(10, never(), () => {
    throw new RangeError('too late')
  })
  await expect(thrown).rejects.toThrow(RangeError)
})

test('an error that comes after the deadline is nobody’s', async () => {
  const { promise, reject } = Promise.withResolvers<string>()
  expect(await within(10, promise, () => 'late')).toBe('late')
  reject(new Error('unheard'))
  await expect(promise).rejects.toThrow('unheard')
})
