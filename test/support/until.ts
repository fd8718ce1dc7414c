/** Waits until something has come true, looking each millisecond. @throws after `deadlineMs` */
export async function until(condition: () => boolean | Promise<boolean>, deadlineMs = 10_000): Promise<void> {
  const endMs = performance.now() + deadlineMs
  while (!(await condition())) {
    if (performance.now() > endMs) throw new Error(`did not come true within ${deadlineMs} ms: ${condition}`)
    await Bun.sleep(1)
  }
}
