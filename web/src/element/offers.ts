/** What a reader may choose of an exchange. Each says whether that could be done: not while an answer is on its way. */
export interface Offers {
  /** Asks the same again; the new answer takes the place of the old one. */
  again(): boolean;
  /** Lets the reader change the question. What came after it is put aside once that is asked. */
  edit(): boolean;
  /** Has the model go on where it has stopped. */
  goOn(): boolean;
  /** Shows the version of the conversation that has this message, which stands in the place of the question. */
  select(messageId: string): boolean;
}
