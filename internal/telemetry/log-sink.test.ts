import { describe, expect, test } from 'bun:test'
import { createLogger } from './log.ts'
import { LogSink } from './log-sink.ts'

/** A reader that takes `room` bytes until it is given more. */
function slowReader(room: number) {
  const reader = {
    text: '',
    room,
    writes: 0,
    write(bytes: Uint8Array): number {
      reader.writes += 1
      const taken = Math.min(reader.room, bytes.length)
      reader.room -= taken
      reader.text += Buffer.from(bytes.subarray(0, taken)).toString()
      return taken
    },
  }
  return reader
}

async function until(condition: () => boolean): Promise<void> {
  const deadlineMs = performance.now() + 2000
  while (!condition()) {
    if (performance.now() > deadlineMs) throw new Error('the condition did not come true within 2 s')
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}

test('log sink: writes buffered lines together within 100 ms', async () => {
  const reader = slowReader(Number.MAX_SAFE_INTEGER)
  const sink = new LogSink(reader)
  for (let i = 0; i < 10; i += 1) sink.add(`${i}\n`)
  expect(reader.writes).toBe(0)
  await until(() => reader.writes > 0)
  expect([reader.writes, reader.text]).toEqual([1, '0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n'])
})

test('log sink: writes a full buffer immediately', () => {
  const reader = slowReader(Number.MAX_SAFE_INTEGER)
  const sink = new LogSink(reader)
  for (let i = 0; i < 2000; i += 1) sink.add(`${'x'.repeat(31)}\n`)
  expect(reader.writes).toBeGreaterThan(0)
  sink.finish()
  expect(reader.text).toHaveLength(64_000)
})

test('log sink: writes the remaining bytes later and in order after a partial write', async () => {
  const reader = slowReader(3)
  const sink = new LogSink(reader)
  sink.add('first\n')
  sink.flush()
  sink.add('second\n')
  sink.flush()
  expect(reader.text).toBe('fir')
  reader.room = 100
  await until(() => reader.text === 'first\nsecond\n')
})

describe('a reader that takes nothing', () => {
  test('log sink: while the reader is blocked, memory is limited and further lines are dropped, counted and reported', () => {
    const reader = slowReader(0)
    const log = createLogger({ level: 'info', service: 's', version: 'v', destination: reader })
    for (let i = 0; i < 40_000; i += 1) log.info({ filler: 'x'.repeat(200) }, 'line')
    reader.room = Number.MAX_SAFE_INTEGER
    log.flush()
    expect(reader.text.length).toBeLessThan(5 * 1024 * 1024)
    log.info({}, 'after')
    log.close()
    const last = reader.text.trim().split('\n').slice(-2)
    const written = reader.text.trim().split('\n').length
    const told = JSON.parse(last[0] ?? '') as { dropped: number; level: string }
    expect(told.level).toBe('warn')
    expect(told.dropped + written - 2).toBe(40_000)
    expect(last[1]).toContain('"msg":"after"')
  })

  test('log sink: at exit, retries a blocked reader 51 times within 500 ms, then stops', () => {
    const reader = slowReader(0)
    const sink = new LogSink(reader)
    sink.add('x\n')
    sink.finish()
    expect(reader.writes).toBe(51)
  })
})

test('log sink: writing after the reader has closed its end does not cause an error', () => {
  let writes = 0
  const sink = new LogSink({
    write() {
      writes += 1
      throw new Error('EPIPE')
    },
  })
  sink.add('a\n')
  sink.flush()
  sink.add('b\n')
  sink.flush()
  expect(writes).toBe(1)
})

test('log sink: a line is written even if the process exits immediately after it', async () => {
  const program = `import { createLogger } from ${JSON.stringify(new URL('log.ts', import.meta.url).pathname)}
    createLogger({ level: 'info', service: 's', version: 'v' }).info({ n: 1 }, 'last words')
    process.exit(3)`
  const child = Bun.spawn([process.execPath, '-e', program], { stdout: 'pipe', stderr: 'inherit' })
  expect(await new Response(child.stdout).text()).toContain('"msg":"last words","n":1')
  expect(await child.exited).toBe(3)
})
