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

const ada = { sessionKey: 'first', actorName: 'user:ada' }

test('live stream: sends the event `tick` soon after opening and in each interval, and the event `slow` in every fifth interval', async () => {
  const live = createLiveStreams({ everyMs: 1 })
  const answer = opened(live.open(ada))
  expect(answer.headers?.['Content-Type']).toBe('text/event-stream')
  const text = await readUntil(answer, /slow/)
  expect(text).toStartWith(': open\n\n')
  expect(text.match(/event: tick\n/g)?.length).toBe(6)
  expect(text).toEndWith('event: slow\ndata: 1\n\n')
})

test('live stream: sends the event `status` whenever the version of the status differs from the version on the page', async () => {
  const versions = ['1', '1', '2', '2', '3']
  const readStatus = () => Promise.resolve(versions.shift() ?? '3')
  const live = createLiveStreams({ statusEveryMs: 1, readStatus })
  const [current, older, unknown] = [live.open(ada, '1'), live.open(ada, '0'), live.open(ada)].map(opened)
  await until(() => versions.length === 0)
  live.close()
  const countOf = async (answer: Streaming | undefined) =>
    answer && (await readUntil(answer, /never/)).match(/event: status\n/g)?.length
  expect([await countOf(current), await countOf(older), await countOf(unknown)]).toEqual([2, 3, 2])
})

test('live stream: a stream stays open if reading the status fails, and sends the next change', async () => {
  let reads = 0
  const readStatus = () => (++reads < 3 ? Promise.reject(new Error('away')) : Promise.resolve('2'))
  const live = createLiveStreams({ statusEveryMs: 1, readStatus })
  expect(await readUntil(opened(live.open(ada, '1')), /status/)).toEndWith('event: status\ndata: 1\n\n')
  live.close()
})

test('live stream: a stream that the client cancels is removed', async () => {
  const live = createLiveStreams({ everyMs: 1 })
  await opened(live.open(ada)).body.cancel()
  expect(live.count()).toBe(0)
})

test('live stream: a client that does not read is disconnected, and its buffer is limited', async () => {
  const live = createLiveStreams({ everyMs: 1 })
  const answer = opened(live.open(ada))
  const reader = answer.body.getReader()
  await reader.read()
  reader.releaseLock()
  // The client reads nothing until the server has ended the stream.
  await until(() => live.count() === 0)
  const rest = await readUntil(answer, /never/)
  expect(rest.match(/event: tick\n/g)?.length).toBeLessThan(25)
})

describe('live streams', () => {
  test('live streams: each session can open at most 12 streams, counted per session of an actor', () => {
    const live = createLiveStreams()
    const kinds = Array.from({ length: 13 }, () => live.open(ada).kind)
    expect(kinds.filter((kind) => kind === 'answer')).toHaveLength(12)
    expect(live.open(ada)).toMatchObject({ kind: 'error', code: 'overloaded' })
    expect(live.open({ ...ada, sessionKey: 'second' }).kind).toBe('answer')
    live.close()
  })

  test('live streams: each actor can open at most 60 streams in all sessions', () => {
    const live = createLiveStreams()
    const kinds = Array.from(
      { length: 70 },
      (_, nth) => live.open({ ...ada, sessionKey: `${nth % 10}` }).kind,
    )
    expect(kinds.filter((kind) => kind === 'answer')).toHaveLength(60)
    expect(live.open({ sessionKey: 'first', actorName: 'user:bob' }).kind).toBe('answer')
    live.close()
  })

  test('live streams: a process opens at most 500 streams', () => {
    const live = createLiveStreams()
    for (let nth = 0; nth < 500; nth++)
      expect(live.open({ sessionKey: `${nth}`, actorName: `user:${nth}` }).kind).toBe('answer')
    expect(live.open({ sessionKey: 'late', actorName: 'user:late' }).kind).toBe('error')
    live.close()
    expect(live.count()).toBe(0)
  })
})

test('live streams: close ends the open streams and refuses new streams', async () => {
  const live = createLiveStreams()
  const answer = opened(live.open(ada))
  live.close()
  expect(await readUntil(answer, /never/)).toBe(': open\n\n')
  expect(live.open(ada).kind).toBe('error')
  live.close()
})
