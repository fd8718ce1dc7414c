import { type Command, misused, wantsHelp } from './command.ts'

const name = 'latchkey check'
const help = `usage: ${name} URL...     asks each address, and says whether all of them answer 2xx

It tries for 30 s, since what has just been started may be a moment late. It needs no settings.
Exit codes: 0 all do, 1 one does not, 2 not understood.`

const deadlineMs = 30_000
const againMs = 500
const answerMsMax = 5_000

/** Asks addresses, as what tests an installation does: `latchkey check`. */
export const checkCommand: Command = {
  summary: 'asks addresses whether they answer',
  async run(args, terminal) {
    if (wantsHelp(args)) {
      terminal.say(help)
      return 0
    }
    if (args.length === 0) return misused(terminal, 'Name an address', name)
    const odd = args.find((each) => !isHttp(each))
    if (odd !== undefined) return misused(terminal, 'An address has to begin with http:// or https://', name)
    const untilMs = performance.now() + deadlineMs
    const found = await Promise.all(args.map(async (url) => ({ url, said: await ask(url, untilMs) })))
    for (const { url, said } of found) terminal.say(`${url}: ${said.text}`)
    return found.every(({ said }) => said.ok) ? 0 : 1
  },
}

function isHttp(text: string): boolean {
  const url = URL.parse(text)
  return url?.protocol === 'http:' || url?.protocol === 'https:'
}

interface Said {
  readonly ok: boolean
  readonly text: string
}

async function ask(url: string, untilMs: number): Promise<Said> {
  for (;;) {
    const said = await askOnce(url)
    if (said.ok || performance.now() + againMs > untilMs) return said
    await Bun.sleep(againMs)
  }
}

async function askOnce(url: string): Promise<Said> {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(answerMsMax), redirect: 'manual' })
    await response.body?.cancel()
    return { ok: response.ok, text: String(response.status) }
  } catch (error) {
    return { ok: false, text: error instanceof Error ? error.message : 'no answer' }
  }
}
