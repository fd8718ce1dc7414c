import { expect, test } from 'bun:test'
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { curlCommand } from './shown-call.ts'

const odd = `it's "odd" $HOME \`id\` \\ \\n ! * [a-b] {x,y} ; & | > # é 漢 \t`

/** Runs a command in a shell whose `curl` prints its arguments, each ended by NUL, and then its input. */
function run(command: string, shell: string): { readonly args: string[]; readonly input: string } {
  const dir = mkdtempSync(join(tmpdir(), 'latchkey-curl-'))
  try {
    const file = join(dir, 'curl')
    writeFileSync(file, '#!/bin/sh\nprintf "%s\\0" "$@"\ncat\n')
    chmodSync(file, 0o755)
    const { stdout, exitCode } = Bun.spawnSync([shell, '-c', command], {
      env: { PATH: `${dir}:${process.env['PATH'] ?? ''}`, HOME: '/nowhere' },
    })
    expect(exitCode).toBe(0)
    const parts = stdout.toString().split('\0')
    return { args: parts.slice(0, -1), input: parts.at(-1) ?? '' }
  } finally {
    rmSync(dir, { recursive: true })
  }
}

test.each(['sh', 'bash'])('curl command: %s passes URL, headers and body to curl unchanged', (shell) => {
  const url = `https://shop.example.com/a?q=${odd}`
  const headers = [
    ['x-odd', odd],
    ['webhook-signature', 'v1,[redacted]'],
  ] as const
  const body = `{"text":${JSON.stringify(odd)},"percent":"%s %d"}\n`
  expect(run(curlCommand({ url, headers, body }), shell)).toEqual({
    args: [
      '-sS',
      '-i',
      '-g',
      '-X',
      'POST',
      url,
      ...headers.flatMap(([name, value]) => ['-H', `${name}: ${value}`]),
      '--data-binary',
      '@-',
    ],
    input: body,
  })
})

test('curl command: if the body is not available, the command reads the file `event.json` instead', () => {
  const command = curlCommand({ url: 'https://shop.example.com/', headers: [], body: undefined })
  expect(command).toEndWith('--data-binary @event.json')
  expect(command).toStartWith('curl ')
})
