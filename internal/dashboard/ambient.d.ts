// Files that `with { type: 'text' }` imports as text.
declare module 'htmx.org/dist/*' {
  const text: string
  export default text
}
declare module '*/browser.mjs' {
  const text: string
  export default text
}
declare module '*.css' {
  const text: string
  export default text
}
declare module '*.svg' {
  const text: string
  export default text
}

// Preact's types include the DOM's, which shadow Bun's own. Members that Bun adds:
interface ReadableStream<R> {
  text(): Promise<string>
}

interface Worker {
  unref(): void
}
