import { type Cli, jsonOption, type Program } from './cli.ts'

const deadlineMs = 30_000
const againMs = 500
const answerMsMax = 5_000

const afterHelp = `
Each address must respond with 2xx. The command retries for 30 s, because a process that was just
started may not be ready. It needs no settings.`

/** Adds the command `check`, which is also the Helm test of an installation. */
export function addCheckCommand(program: Program, cli: Cli): void {
  const check = program
    .command('check')
    .description('checks that addresses respond')
    .addHelpText('after', afterHelp)
    .argument('<url...>', 'addresses to call')
    .option(...jsonOption)
  check.action(
    cli.action(async (urls, options) => {
      if (!urls.every(isHttp)) check.error('An address must begin with http:// or https://')
      const untilMs = performance.now() + deadlineMs
      const answers = await Promise.all(urls.map((url) => callUntil(url, untilMs)))
      const text = answers.map(({ url, answer }) => `${url}: ${answer}`).join('\n')
      const isWell = answers.every(({ ok }) => ok)
      return cli.answer(isWell ? { text, json: answers } : { problem: text, json: answers }, options)
    }),
  )
}

function isHttp(text: string): boolean {
  const url = URL.parse(text)
  return url?.protocol === 'http:' || url?.protocol === 'https:'
}

interface Answer {
  readonly url: string
  readonly ok: boolean
  /** Status of the response, or the reason why there is none. */
  readonly answer: string
}

async function callUntil(url: string, untilMs: number): Promise<Answer> {
  for (;;) {
    const called = await callOnce(url)
    if (called.ok || performance.now() + againMs > untilMs) return called
    await Bun.sleep(againMs)
  }
}

async function callOnce(url: string): Promise<Answer> {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(answerMsMax), redirect: 'manual' })
    await response.body?.cancel()
    return { url, ok: response.ok, answer: String(response.status) }
  } catch (error) {
    return { url, ok: false, answer: error instanceof Error ? error.message : 'no answer' }
  }
}
