import { describe, expect, test } from 'bun:test'
import { createResolver, systemResolve } from './call.ts'

/** Resolver with settable answers and clock. */
function lab() {
  const asked: string[] = []
  let nowMs = 0
  let answer: () => Promise<readonly string[]> = async () => ['8.8.8.8']
  const resolver = createResolver(
    (name) => {
      asked.push(name)
      return answer()
    },
    () => nowMs,
  )
  return {
    asked,
    resolver,
    pass: (ms: number) => {
      nowMs += ms
    },
    answerWith: (next: () => Promise<readonly string[]>) => {
      answer = next
    },
  }
}

describe('resolver', () => {
  test('resolver: shares one lookup between concurrent calls and caches its result for 5 s', async () => {
    const { asked, resolver, pass } = lab()
    const together = await Promise.all([resolver('a.example', 1000), resolver('a.example', 1000)])
    expect(together).toEqual([
      { kind: 'addresses', addresses: ['8.8.8.8'] },
      { kind: 'addresses', addresses: ['8.8.8.8'] },
    ])
    pass(4999)
    await resolver('a.example', 1000)
    expect(asked).toEqual(['a.example'])
    pass(1)
    await resolver('a.example', 1000)
    expect(asked).toEqual(['a.example', 'a.example'])
  })

  test('resolver: caches a failure for 1 s', async () => {
    const { asked, resolver, pass, answerWith } = lab()
    answerWith(() => Promise.reject(new Error('ENOTFOUND')))
    const none = { kind: 'failed', cause: 'no_address' }
    expect(await resolver('a.example', 1000)).toEqual(none as never)
    answerWith(async () => ['8.8.4.4'])
    pass(999)
    expect(await resolver('a.example', 1000)).toEqual(none as never)
    pass(1)
    expect(await resolver('a.example', 1000)).toEqual({ kind: 'addresses', addresses: ['8.8.4.4'] })
    expect(asked.length).toBe(2)
  })

  test('resolver: fails after its time limit if the name server is silent, and serves the next call from the late reply', async () => {
    const { asked, resolver, answerWith } = lab()
    const late = Promise.withResolvers<readonly string[]>()
    answerWith(() => late.promise)
    expect(await resolver('slow.example', 5)).toEqual({ kind: 'failed', cause: 'timeout' })
    late.resolve(['8.8.8.8'])
    expect(await resolver('slow.example', 1000)).toEqual({ kind: 'addresses', addresses: ['8.8.8.8'] })
    expect(asked).toEqual(['slow.example'])
  })

  test('resolver: refuses a name with more than 64 addresses', async () => {
    const { resolver, answerWith } = lab()
    answerWith(async () => Array.from({ length: 65 }, (_, index) => `8.8.8.${index}`))
    expect(await resolver('many.example', 1000)).toEqual({ kind: 'failed', cause: 'too_many' })
    answerWith(async () => Array.from({ length: 65 }, () => '8.8.8.8'))
    expect(await resolver('same.example', 1000)).toEqual({ kind: 'addresses', addresses: ['8.8.8.8'] })
    answerWith(async () => [])
    expect(await resolver('empty.example', 1000)).toEqual({ kind: 'failed', cause: 'no_address' })
  })

  test('resolver: caches 10 000 names and evicts the oldest', async () => {
    const { asked, resolver } = lab()
    for (let index = 0; index <= 10_000; index++) await resolver(`${index}.example`, 1000)
    await resolver('1.example', 1000)
    expect(asked.length).toBe(10_001)
    await resolver('0.example', 1000)
    expect(asked.length).toBe(10_002)
  })

  test('resolver: reads the hosts file', async () => {
    expect(await systemResolve('localhost')).toContain('127.0.0.1')
  })
})
