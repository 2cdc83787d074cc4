/** Makes an outside call under the step's derived key, which is the same for every attempt. */
export async function callProvider(
  url: string,
  body: unknown,
  key: string,
  signal: AbortSignal,
): Promise<{ id: string; declined: boolean }> {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'idempotency-key': key },
    body: JSON.stringify(body),
    signal,
  })
  return (await response.json()) as { id: string; declined: boolean }
}
