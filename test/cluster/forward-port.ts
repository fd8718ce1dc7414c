/** Local port forwarded to a pod. */
export interface ForwardedPort {
  readonly port: number
  close(): Promise<void>
}

/** Forwards a free port of 127.0.0.1 to a pod through kubectl. The caller closes it. @throws if kubectl fails */
export async function forwardPort(namespace: string, pod: string, port: number): Promise<ForwardedPort> {
  const argv = ['kubectl', 'port-forward', '-n', namespace, pod, `:${port}`]
  const child = Bun.spawn(argv, { stdin: 'ignore', stdout: 'pipe', stderr: 'ignore' })
  const reader = child.stdout.getReader()
  const decoder = new TextDecoder()
  let said = ''
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    said += decoder.decode(part.value, { stream: true })
    const [, found] = /127\.0\.0\.1:(\d+)/.exec(said) ?? []
    if (found === undefined) continue
    // Stops reading: unread output does not block kubectl.
    reader.releaseLock()
    const close = async () => {
      child.kill()
      await child.exited
    }
    return { port: Number(found), close }
  }
  throw new Error(`kubectl port-forward ended with ${await child.exited}`)
}
