// Preact's types bring those of browsers with them, which then stand for Bun's own everywhere. What Bun has beyond them:

interface ReadableStream<R> {
  text(): Promise<string>
}

interface Worker {
  unref(): void
}
