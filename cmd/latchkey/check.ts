import { type Cli, exitCodes, type Program } from './cli.ts'

const deadlineMs = 30_000
const againMs = 500
const answerMsMax = 5_000

const afterHelp = `
Each address has to respond with 2xx. The command retries for 30 s, because a process that was just
started may not be ready. It needs no settings.`

/** Adds `latchkey check`, which checks that addresses respond. The Helm test of an installation runs it. */
export function addCheckCommand(program: Program, cli: Cli): void {
  const check = program
    .command('check')
    .description('checks that addresses respond')
    .addHelpText('after', afterHelp)
    .argument('<url...>', 'addresses to call')
  check.action(
    cli.action(async (urls) => {
      if (!urls.every(isHttp)) check.error('An address has to begin with http:// or https://')
      const untilMs = performance.now() + deadlineMs
      const answers = await Promise.all(urls.map((url) => callUntil(url, untilMs)))
      for (const { url, text } of answers) cli.terminal.say(`${url}: ${text}`)
      return answers.every(({ ok }) => ok) ? exitCodes.ok : exitCodes.failed
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
  readonly text: string
}

async function callUntil(url: string, untilMs: number): Promise<Answer> {
  for (;;) {
    const answer = await callOnce(url)
    if (answer.ok || performance.now() + againMs > untilMs) return answer
    await Bun.sleep(againMs)
  }
}

async function callOnce(url: string): Promise<Answer> {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(answerMsMax), redirect: 'manual' })
    await response.body?.cancel()
    return { url, ok: response.ok, text: String(response.status) }
  } catch (error) {
    return { url, ok: false, text: error instanceof Error ? error.message : 'no answer' }
  }
}
