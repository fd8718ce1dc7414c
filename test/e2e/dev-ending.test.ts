import { afterEach, describe, expect, test } from 'bun:test'
import { listProcesses } from '#internal/dev/index.ts'
import { nightlyTest, usualCases } from '#test/support/nightly.ts'
import { createDevLab, startsMs, storesEndIn, storesIn } from '#test/support/processes/dev-lab.ts'

const lab = createDevLab()
afterEach(() => lab.close())

describe('dev server', () => {
  test.each(usualCases(['SIGTERM', 'SIGHUP'] as const, 1))(
    'dev server: %s leaves no store running',
    async (signal) => {
      const dataDir = lab.folder()
      const server = lab.start({ dataDir })
      await server.ready()
      server.signal(signal)
      expect(await server.exited).toBe(0)
      expect(await storesIn(dataDir)).toEqual([])
    },
    startsMs,
  )

  test(
    'dev server: Ctrl-C during startup leaves no store running',
    async () => {
      const dataDir = lab.folder()
      const server = lab.start({ dataDir })
      await server.prints('Redis: ready')
      server.signal('SIGINT')
      await server.exited
      expect(await storesEndIn(dataDir)).toBe(true)
    },
    startsMs,
  )

  nightlyTest(
    'dev server: the end of its parent process leaves no store running',
    async () => {
      const dataDir = lab.folder()
      const shell = lab.start({
        dataDir,
        argv: ['/bin/sh', '-c', '"$0" cmd/dev/main.ts & wait', process.execPath],
      })
      await shell.ready()
      shell.signal('SIGKILL')
      expect(await storesEndIn(dataDir)).toBe(true)
    },
    startsMs,
  )

  const signals = [
    ['kill -9', 'SIGKILL', null],
    ['Ctrl-C', 'SIGINT', 0],
    ['SIGTERM', 'SIGTERM', 0],
  ] as const
  test.each(usualCases(signals, 1))(
    'dev server: %s sent to the command that npm runs leaves no store running',
    async (_case, signal, exitCode) => {
      const dataDir = lab.folder()
      const setup = lab.start({ dataDir, argv: ['node', 'cmd/dev/setup.mjs', 'dev'] })
      await setup.ready()
      setup.signal(signal)
      expect(await setup.exited).toBe(exitCode)
      expect(await storesEndIn(dataDir)).toBe(true)
    },
    startsMs,
  )

  nightlyTest(
    'dev server: SIGTERM to npm leaves no store running',
    async () => {
      const dataDir = lab.folder()
      const npm = lab.start({ dataDir, argv: ['npm', 'run', 'dev'] })
      await npm.ready()
      npm.signal('SIGTERM')
      expect(await storesEndIn(dataDir)).toBe(true)
    },
    startsMs,
  )
})

test(
  'dev server: exits with an error that names a store that exited unexpectedly',
  async () => {
    const dataDir = lab.folder()
    const server = lab.start({ dataDir })
    await server.ready()
    const redis = (await listProcesses()).find(({ command }) =>
      command.includes(`${dataDir}/redis/redis.conf`),
    )
    process.kill(redis?.pid ?? 0, 'SIGKILL')
    expect(await server.exited).toBe(1)
    expect(server.output()).toContain('Redis exited unexpectedly')
    expect(await storesIn(dataDir)).toEqual([])
  },
  startsMs,
)
