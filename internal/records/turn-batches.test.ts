import { expect, test } from 'bun:test'
import { type Batchable, TurnBatches } from './turn-batches.ts'

interface Sized extends Batchable {
  readonly reply?: string
}

function batchesOf(options: { callsMax?: number; charsMax?: number; repeatsEntries?: boolean } = {}) {
  const sent: string[][] = []
  const batches = new TurnBatches<Sized, string>({
    callsMax: 3,
    charsMax: 100,
    repeatsEntries: false,
    ...options,
    async send(calls) {
      sent.push(calls.map(({ entry }) => entry))
      if (calls.some(({ entry }) => entry === 'broken')) throw new Error('not sent')
      const replies = calls.map(({ entry }) => `reply to ${entry}`)
      return calls.some(({ entry }) => entry === 'cut') ? replies.slice(0, 1) : replies
    },
  })
  const add = (group: string, entry: string, chars = 1) => batches.add(group, { entry, chars })
  return { sent, add }
}

test('turn batches: calls of one turn share a batch in each group, and each call gets its reply', async () => {
  const { sent, add } = batchesOf()
  const replies = await Promise.all([add('a', '1'), add('b', '2'), add('a', '3')])
  expect(replies).toEqual(['reply to 1', 'reply to 2', 'reply to 3'])
  expect(sent).toEqual([['1', '3'], ['2']])
})

test('turn batches: calls made the same number of microtasks after one promise share a batch, and a later call does not', async () => {
  const { sent, add } = batchesOf()
  const turn = Promise.withResolvers<void>()
  const call = async (entry: string) => {
    await turn.promise
    await Promise.resolve()
    return await add('a', entry)
  }
  const calls = [call('1'), call('2')]
  turn.resolve()
  await Promise.all(calls)
  await add('a', '3')
  expect(sent).toEqual([['1', '2'], ['3']])
})

test.each([
  ['calls', {}, ['1', '2', '3', '4'], 1, [['1', '2', '3'], ['4']]],
  ['characters', {}, ['1', '2', '3'], 40, [['1', '2'], ['3']]],
  ['characters of a call that is longer than a batch', {}, ['1', '2'], 101, [['1'], ['2']]],
  ['entries', {}, ['1', '1', '2'], 1, [['1'], ['1', '2']]],
  ['entries that may repeat', { repeatsEntries: true }, ['1', '1', '2'], 1, [['1', '1', '2']]],
])('turn batches: a batch is bounded by its %s', async (_what, options, entries, chars, expected) => {
  const { sent, add } = batchesOf(options)
  await Promise.all(entries.map((entry) => add('a', entry, chars)))
  expect(sent).toEqual(expected)
})

test('turn batches: an error of a batch rejects each call of this batch, and no call of another batch', async () => {
  const { add } = batchesOf()
  const results = await Promise.allSettled([add('a', 'broken'), add('a', '1'), add('b', '2')])
  expect(results.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'fulfilled'])
})

test('turn batches: a call without a reply is rejected, and the other calls of its batch get their replies', async () => {
  const { add } = batchesOf()
  const results = await Promise.allSettled([add('a', 'cut'), add('a', '1')])
  expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected'])
})
