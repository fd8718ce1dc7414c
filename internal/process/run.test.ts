import { describe, expect, test } from 'bun:test'

interface Line {
  readonly level: string
  readonly msg: string
  readonly step?: string
  readonly reason?: string
  readonly cause?: { readonly message: string }
}

const rooms = new URL('..', import.meta.url).pathname

/** Starts a real process whose `start` is `body`; a pipe holds it open as a server would. */
function run(body: string, graceMs = 2000) {
  const program = `
    import { createLogger } from '${rooms}telemetry/index.ts'
    import { runProcess } from '${rooms}process/index.ts'
    const log = createLogger({ level: 'debug', service: 'test', version: '0' })
    const part = (name, close = () => undefined, closeMsMax) => ({ name, open: () => name, close, closeMsMax })
    await runProcess({ name: 'test', log, graceMs: ${graceMs}, start: async (scope) => {
      await scope.open({ name: 'held', open: () => setInterval(() => undefined, 1000), close: clearInterval })
      ${body}
    } })`
  const child = Bun.spawn([process.execPath, '-e', program], { stdout: 'pipe', stderr: 'inherit' })
  const reader = child.stdout.getReader()
  const decoder = new TextDecoder()
  let text = ''
  const lines = () =>
    text
      .split('\n')
      .filter((line) => line.startsWith('{'))
      .map((line) => JSON.parse(line) as Line)
  /** Reads on until a line says `message`; the test's own time-out is the bound. */
  const seen = async (message: string) => {
    while (!lines().some((line) => line.msg === message)) {
      const { done, value } = await reader.read()
      if (done) throw new Error(`the process ended without saying: ${message}\n${text}`)
      text += decoder.decode(value)
    }
  }
  const end = async () => {
    for (let chunk = await reader.read(); !chunk.done; chunk = await reader.read())
      text += decoder.decode(chunk.value)
    return { code: await child.exited, lines: lines() }
  }
  return { child, seen, end }
}

describe.each(['SIGTERM', 'SIGINT'] as const)('%s', (signal) => {
  test('runProcess: a signal closes all components in reverse order, and the exit code is 0', async () => {
    const { child, seen, end } = run(`await scope.open(part('a')); await scope.open(part('b'))`)
    await seen('process is up')
    child.kill(signal)
    const { code, lines } = await end()
    expect(code).toBe(0)
    expect(lines.filter((line) => line.msg === 'closed').map((line) => line.step)).toEqual(['b', 'a', 'held'])
    expect(lines).toContainEqual(expect.objectContaining({ msg: 'process is ending', reason: signal }))
    expect(lines.at(-1)?.msg).toBe('process has ended')
  })

  test('runProcess: a signal half a second after the first exits immediately', async () => {
    const { child, seen, end } = run(
      `await scope.open(part('hangs', () => new Promise(() => undefined), 60_000))`,
      60_000,
    )
    await seen('process is up')
    const repeated = setInterval(() => child.kill(signal), 20)
    const { code } = await end()
    clearInterval(repeated)
    expect(code).toBe(signal === 'SIGINT' ? 130 : 143)
  })
})

test('runProcess: signals within half a second count once, so that the components are closed', async () => {
  const { child, seen, end } = run(`
    const arrived = (signal) => new Promise((resolve) => process.once(signal, resolve))
    const both = Promise.all([arrived('SIGINT'), arrived('SIGTERM')])
    await scope.open(part('a', () => both))`)
  await seen('process is up')
  child.kill('SIGINT')
  child.kill('SIGTERM')
  const { code, lines } = await end()
  expect(code).toBe(0)
  expect(lines.filter((line) => line.msg === 'closed').map((line) => line.step)).toEqual(['a', 'held'])
})

test('runProcess: a signal during start-up closes the components that are already open', async () => {
  const { child, seen, end } = run(`
    await scope.open(part('a'))
    log.info({}, 'waiting')
    await new Promise((resolve) => scope.signal.addEventListener('abort', resolve))
    await scope.open(part('never'))`)
  await seen('waiting')
  child.kill('SIGTERM')
  const { code, lines } = await end()
  expect(code).toBe(0)
  expect(lines.filter((line) => line.msg === 'closed').map((line) => line.step)).toEqual(['a', 'held'])
  expect(lines.some((line) => line.msg === 'process is up')).toBe(false)
})

describe('failures', () => {
  test.each([
    ['a start that fails', `await scope.open(part('a')); throw new Error('no')`, 'process could not start'],
    [
      'an unhandled rejection',
      `await scope.open(part('a')); Promise.reject(new Error('no'))`,
      'unhandled rejection',
    ],
    [
      'an uncaught exception',
      `await scope.open(part('a')); setTimeout(() => { throw new Error('no') }, 1)`,
      'uncaught exception',
    ],
    [
      'a failed component',
      `await scope.open(part('a')); scope.stop(new Error('no'))`,
      'a component has failed',
    ],
  ])(
    'runProcess: %s is logged, all components are closed, and the exit code is 1',
    async (_case, body, message) => {
      const { code, lines } = await run(body).end()
      expect(code).toBe(1)
      expect(lines.find((line) => line.level === 'error')).toMatchObject({
        msg: message,
        cause: { message: 'no' },
      })
      expect(lines.filter((line) => line.msg === 'closed').map((line) => line.step)).toEqual(['a', 'held'])
    },
  )
})

test('runProcess: prints only the message of an explained start-up failure', async () => {
  const program = `
    import { createLogger } from '${rooms}telemetry/index.ts'
    import { runProcess } from '${rooms}process/index.ts'
    const log = createLogger({ level: 'info', service: 'test', version: '0' })
    await runProcess({ name: 'test', log, graceMs: 2000, start: () => Promise.reject(new RangeError('too far')),
      explain: (cause) => cause instanceof RangeError ? 'Come nearer: ' + cause.message : undefined })`
  const child = Bun.spawn([process.execPath, '-e', program], { stdout: 'pipe', stderr: 'pipe' })
  const [out, err] = await Promise.all([child.stdout.text(), child.stderr.text()])
  expect([out, err, await child.exited]).toEqual(['', '\nCome nearer: too far\n\n', 1])
})

test('runProcess: exits with 0 if a component requests the stop', async () => {
  expect((await run('scope.stop()').end()).code).toBe(0)
})
