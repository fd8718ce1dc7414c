/** What the demo's callback does with an event: takes it, fails twice before, or never takes it. */
export const demoFates = ['taken', 'flaky', 'failing'] as const
/** One of these. */
export type DemoFate = (typeof demoFates)[number]

/** By this header of a demo's call its events are known at the callback, and what is to become of them. */
export const demoHeader = 'x-demo-traffic'
/** How the reference of a demo's simulation begins, whose calls are not the demo's own. */
export const demoReference = 'demo-traffic-'

/** Tells a demo's event, as a callback gets it, from anybody else's, and gives its fate. Never fails. */
export function demoFateOf(body: string): DemoFate | undefined {
  const fate = new RegExp(`"${demoHeader}":"(${demoFates.join('|')})"`).exec(body)?.[1]
  if (fate !== undefined) return demoFates.find((each) => each === fate)
  return body.includes(`"reference":"${demoReference}`) ? 'taken' : undefined
}
