import { describe, expect, test } from 'bun:test'
import type { Answer } from '#internal/http/index.ts'
import { until } from '#test/support/until.ts'
import { createLiveStreams } from './live.ts'

type Streaming = Answer<ReadableStream<Uint8Array<ArrayBuffer>>>

function opened(result: ReturnType<ReturnType<typeof createLiveStreams>['open']>): Streaming {
  if (result.kind === 'error') throw new Error(result.code)
  return result
}

async function readUntil(answer: Streaming, wanted: RegExp): Promise<string> {
  const decoder = new TextDecoder()
  let text = ''
  for await (const bytes of answer.body) {
    text += decoder.decode(bytes)
    if (wanted.test(text)) return text
  }
  return text
}

test('a stream ticks, and says each fifth time that what is slow may be looked at', async () => {
  const live = createLiveStreams({ everyMs: 1 })
  const answer = opened(live.open('user:ada'))
  expect(answer.headers?.['Content-Type']).toBe('text/event-stream')
  const text = await readUntil(answer, /slow/)
  expect(text).toStartWith(': open\n\n')
  expect(text.match(/event: tick\n/g)?.length).toBe(5)
  expect(text).toEndWith('event: slow\ndata: 1\n\n')
})

test('whoever stops reading is forgotten', async () => {
  const live = createLiveStreams({ everyMs: 1 })
  await opened(live.open('user:ada')).body.cancel()
  expect(live.count()).toBe(0)
})

test('whoever keeps the connection and reads nothing is dropped', async () => {
  const live = createLiveStreams({ everyMs: 1 })
  const answer = opened(live.open('user:ada'))
  const reader = answer.body.getReader()
  await reader.read()
  reader.releaseLock()
  // Nothing more is read until the stream has given up; then what it holds is bounded.
  await until(() => live.count() === 0)
  const rest = await readUntil(answer, /never/)
  expect(rest.match(/event: tick\n/g)?.length).toBeLessThan(25)
})

describe('streams are bounded', () => {
  test('by session', () => {
    const live = createLiveStreams()
    const kinds = Array.from({ length: 13 }, () => live.open('user:ada').kind)
    expect(kinds.filter((kind) => kind === 'answer')).toHaveLength(12)
    expect(live.open('user:ada')).toMatchObject({ kind: 'error', code: 'overloaded' })
    expect(live.open('user:bob').kind).toBe('answer')
    live.close()
  })

  test('by process', () => {
    const live = createLiveStreams()
    for (let nth = 0; nth < 500; nth++) expect(live.open(`user:${nth}`).kind).toBe('answer')
    expect(live.open('user:late').kind).toBe('error')
    live.close()
    expect(live.count()).toBe(0)
  })
})

test('closing ends what is open and lets nothing more begin', async () => {
  const live = createLiveStreams()
  const answer = opened(live.open('user:ada'))
  live.close()
  expect(await readUntil(answer, /never/)).toBe(': open\n\n')
  expect(live.open('user:ada').kind).toBe('error')
  live.close()
})
