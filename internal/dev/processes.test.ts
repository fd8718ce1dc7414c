import { afterEach, describe, expect, test } from 'bun:test'
import { randomUUID } from 'node:crypto'
import { endProcesses, listProcesses, parsePs, StoreStartError } from './processes.ts'

const started: Bun.Subprocess[] = []
afterEach(() => {
  for (const child of started.splice(0)) child.kill('SIGKILL')
})

/** Starts a waiting shell with a mark in its command line; `trap` sets its reaction to SIGTERM. */
async function startMarked(mark: string, trap = ''): Promise<Bun.Subprocess> {
  // Waits without a child process, which would have the same command line between its fork and its exec.
  const child = Bun.spawn(['/bin/sh', '-c', `${trap}echo up; read -r line`, mark], {
    stdin: 'pipe',
    stdout: 'pipe',
  })
  started.push(child)
  const reader = child.stdout.getReader()
  await reader.read()
  return child
}

describe('listProcesses', () => {
  test('listProcesses: includes our own process with its arguments', async () => {
    const own = (await listProcesses()).find(({ pid }) => pid === process.pid)
    expect(own?.command).toContain('test')
  })

  test('listProcesses: omits a process that has ended', async () => {
    const child = await startMarked(randomUUID())
    child.kill('SIGKILL')
    await child.exited
    expect((await listProcesses()).some(({ pid }) => pid === child.pid)).toBe(false)
  })
})

test.each([
  [
    'a line',
    '  12 S    /bin/postgres -D /a b/data -p 1\n',
    [{ pid: 12, command: '/bin/postgres -D /a b/data -p 1' }],
  ],
  ['a zombie', '  12 Z+   (postgres)\n', []],
  ['empty output', '', []],
  ['a line without a command', '  12 S\n', []],
  [
    'two lines',
    '1 Ss init\n22222 R+ ps -axww\n',
    [
      { pid: 1, command: 'init' },
      { pid: 22_222, command: 'ps -axww' },
    ],
  ],
])('parsePs: parses %s', (_case, text, expected) => {
  expect(parsePs(text)).toEqual(expected)
})

describe('endProcesses', () => {
  test('endProcesses: ends the matching process and no other', async () => {
    const [ours, others] = [randomUUID(), randomUUID()]
    const [mine, other] = [await startMarked(ours), await startMarked(others)]
    const ended = await endProcesses(
      (command) => command.includes(ours),
      [{ signal: 'SIGTERM', waitMs: 5000 }],
    )
    expect(ended).toEqual([mine.pid])
    await mine.exited
    expect(other.exitCode).toBeNull()
    expect(other.signalCode).toBeNull()
  })

  test('endProcesses: sends the next signal when a process ignores the previous signal', async () => {
    const mark = randomUUID()
    const child = await startMarked(mark, `trap '' TERM; `)
    await endProcesses(
      (command) => command.includes(mark),
      [
        { signal: 'SIGTERM', waitMs: 100 },
        { signal: 'SIGKILL', waitMs: 5000 },
      ],
    )
    await child.exited
    expect(child.signalCode).toBe('SIGKILL')
  })

  test('endProcesses: ends a suspended process', async () => {
    const mark = randomUUID()
    const child = await startMarked(mark)
    child.kill('SIGSTOP')
    await endProcesses((command) => command.includes(mark), [{ signal: 'SIGTERM', waitMs: 5000 }])
    await child.exited
    expect(child.signalCode).toBe('SIGTERM')
  })

  test('endProcesses: throws an error with the pid of a process that survives every step', async () => {
    const mark = randomUUID()
    const child = await startMarked(mark, `trap '' TERM; `)
    const ending = endProcesses((command) => command.includes(mark), [{ signal: 'SIGTERM', waitMs: 50 }])
    expect(ending).rejects.toThrow(
      new StoreStartError(`process ${child.pid} does not end; end it with kill -9`),
    )
    await ending.catch(() => undefined)
  })

  test('endProcesses: returns no pid when no process matches', async () => {
    const mark = randomUUID()
    expect(await endProcesses((command) => command.includes(mark), [])).toEqual([])
  })
})
