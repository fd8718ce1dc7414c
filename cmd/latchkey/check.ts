import { type Command, misuse } from './command.ts'

const help = `usage: latchkey check URL...     calls each address and checks that each responds with 2xx

The command retries for 30 s, because a process that was just started may not be ready. It needs no settings.
Exit codes: 0 all addresses responded, 1 an address failed, 2 wrong arguments.`

const deadlineMs = 30_000
const againMs = 500
const answerMsMax = 5_000

/** The command `latchkey check`: checks that addresses respond. The Helm test of an installation runs it. */
export const checkCommand: Command = {
  summary: 'checks that addresses respond',
  help,
  async run(args, terminal) {
    if (args.length === 0) return misuse('Name an address')
    const odd = args.find((each) => !isHttp(each))
    if (odd !== undefined) return misuse('An address has to begin with http:// or https://')
    const untilMs = performance.now() + deadlineMs
    const answers = await Promise.all(args.map((url) => callUntil(url, untilMs)))
    for (const { url, text } of answers) terminal.say(`${url}: ${text}`)
    return answers.every(({ ok }) => ok) ? 0 : 1
  },
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
