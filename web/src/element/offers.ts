/** The reader's choices in an exchange. Each returns whether it was possible: not while an answer is running. */
export interface Offers {
  /** Asks the same again; the new answer replaces the old one. */
  again(): boolean;
  /** Lets the reader edit the question. When it is asked, the messages after it are hidden. */
  edit(): boolean;
  /** Asks the model to continue. */
  goOn(): boolean;
  /** Shows the version of the conversation with this message instead of the question. */
  select(messageId: string): boolean;
}
