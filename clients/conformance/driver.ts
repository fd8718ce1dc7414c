/** Message of a driver: it asks what a callback of the library does, reports an abort of the signal of `work`, ends a call, or fails. */
export type DriverMessage = { readonly call: number } & (
  | { readonly asks: 'work' | 'recovery'; readonly context: Readonly<Record<string, unknown>> }
  | { readonly aborted: true }
  | { readonly result: Readonly<Record<string, unknown>> }
  | { readonly failed: string }
)

/** Answers of the runner to a driver's question. */
export interface CallHandlers {
  ask(question: 'work' | 'recovery', context: Readonly<Record<string, unknown>>): Promise<unknown>
  aborted?(): void
}

/** Call under way. */
export interface DriverCall {
  readonly result: Promise<Readonly<Record<string, unknown>>>
  /** Aborts the caller's signal. */
  abort(): void
}

/** Program that makes the calls of the cases with a client library. Many calls can be under way. */
export interface Driver {
  /** Starts a call; `request` has the member `do` and its parameters. */
  start(request: Readonly<Record<string, unknown>>, handlers?: CallHandlers): DriverCall
  /** Kills the program; its calls under way fail. */
  kill(): void
  close(): Promise<void>
}

/** Starts a driver, which speaks JSON lines on its standard input and output. The caller closes it. */
export function startDriver(command: readonly string[], env: Readonly<Record<string, string>> = {}): Driver {
  const child = Bun.spawn([...command], {
    env: { ...process.env, ...env },
    stdin: 'pipe',
    stdout: 'pipe',
    stderr: 'inherit',
  })
  let last = 0
  const open = new Map<
    number,
    { handlers: CallHandlers | undefined; settle: PromiseWithResolvers<Readonly<Record<string, unknown>>> }
  >()
  let hasEnded = false
  const send = async (message: object) => {
    if (hasEnded) return
    await child.stdin.write(`${JSON.stringify(message)}\n`)
    await child.stdin.flush()
  }
  const receive = async (line: string) => {
    const message = JSON.parse(line) as DriverMessage
    const { call } = message
    const one = open.get(call)
    if (!one) throw new Error(`the driver answered to an unknown call: ${line.slice(0, 200)}`)
    if ('asks' in message) {
      try {
        await send({ call, reply: await one.handlers?.ask(message.asks, message.context) })
      } catch (error) {
        one.settle.reject(error)
        await send({ call, reply: { throws: 'the runner failed' } }).catch(() => undefined)
      }
    } else if ('aborted' in message) one.handlers?.aborted?.()
    else {
      open.delete(call)
      if ('failed' in message) one.settle.reject(new Error(`the driver failed: ${message.failed}`))
      else one.settle.resolve(message.result)
    }
  }
  void (async () => {
    let rest = ''
    const decoder = new TextDecoder()
    for await (const bytes of child.stdout) {
      const lines = (rest + decoder.decode(bytes, { stream: true })).split('\n')
      rest = lines.pop() ?? ''
      for (const line of lines) void receive(line)
    }
    hasEnded = true
    for (const { settle } of open.values()) settle.reject(new Error('the driver has ended'))
  })()
  return {
    start(request, handlers) {
      last += 1
      const call = last
      const settle = Promise.withResolvers<Readonly<Record<string, unknown>>>()
      open.set(call, { handlers, settle })
      const fail = (error: unknown) => settle.reject(error)
      if (hasEnded) fail(new Error('the driver has ended'))
      send({ call, ...request }).catch(fail)
      return { result: settle.promise, abort: () => void send({ call, abort: true }).catch(fail) }
    },
    kill: () => child.kill('SIGKILL'),
    async close() {
      await child.stdin.end()
      await child.exited
    },
  }
}
